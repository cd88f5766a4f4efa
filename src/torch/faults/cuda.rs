//! Faults of a GPU. Errors and endless kernels are made with the driver's API and a few lines of
//! PTX, in the context that libtorch made; libtorch then finds them at its next call, as it would
//! find those of its own kernels.
//!
//! Written without a GPU at hand: none of this has run yet. NVIDIA's assembler takes [`PTX`] for every
//! architecture from Turing on; what a first run must show is that the errors come back as 710, 700
//! and 716.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;

use tch::Tensor;

use crate::gpu;
use device::Device;
use inject::Kind;

unsafe extern "C" {
    fn tune_fault_plain_segments();
}

/// Three kernels: a write to an address that nobody has, a write to an odd address, and a wait for
/// a word that never changes. All take the address of a zeroed buffer.
const PTX: &CStr = c"
.version 6.3
.target sm_75
.address_size 64

.visible .entry illegal(.param .u64 buffer)
{
    .reg .b32 %value;
    .reg .b64 %address;
    mov.b32 %value, 1;
    mov.b64 %address, 16;
    st.volatile.global.u32 [%address], %value;
    ret;
}

.visible .entry misaligned(.param .u64 buffer)
{
    .reg .b32 %value;
    .reg .b64 %address;
    mov.b32 %value, 1;
    ld.param.u64 %address, [buffer];
    add.u64 %address, %address, 1;
    st.volatile.global.u32 [%address], %value;
    ret;
}

.visible .entry spin(.param .u64 buffer)
{
    .reg .pred %zero;
    .reg .b32 %value;
    .reg .b64 %address;
    ld.param.u64 %address, [buffer];
wait:
    ld.volatile.global.u32 %value, [%address];
    setp.eq.u32 %zero, %value, 0;
    @%zero bra wait;
    ret;
}
";

/// Makes a fault on this device. Returns where the driver's library lacks what is needed.
pub fn perform(kind: Kind, device: Device) {
    let device = gpu::tch_device(device);
    if kind == Kind::Assert {
        gather_out_of_range(device);
    } else if kind == Kind::IllegalAddress {
        launch(c"illegal", device);
        touch(device);
    } else if kind == Kind::Misaligned {
        launch(c"misaligned", device);
        touch(device);
    } else if kind == Kind::SpinKernel {
        launch(c"spin", device);
        touch(device);
    } else if kind == Kind::KillKernel {
        launch(c"spin", device);
        let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL);
    } else {
        if kind == Kind::OomSegments {
            // SAFETY: takes no argument, catches its exceptions.
            unsafe { tune_fault_plain_segments() }
        }
        allocate(device);
    }
}

/// Row 9 of a table of four: the kernel's assertion fails (710).
fn gather_out_of_range(device: tch::Device) {
    let table = Tensor::zeros([4, 8], (tch::Kind::Float, device));
    let rows = Tensor::full([1, 8], 9, (tch::Kind::Int64, device));
    let gathered = table.gather(0, &rows, false);
    let _ = gathered.to_device(tch::Device::Cpu);
}

/// A copy from the device: waits for its kernels and panics with the error of any of them.
fn touch(device: tch::Device) {
    let _ = Tensor::ones([1], (tch::Kind::Float, device)).to_device(tch::Device::Cpu);
}

/// What a process may take before it runs out of memory, in bytes. Taking all that a large GPU has
/// lasts for seconds, and its neighbours would run out of memory as well.
const ROOM: u64 = 2 << 30;

/// Blocks of 256 MiB until there is no more, then smaller ones.
fn allocate(device: tch::Device) {
    limit(device);
    let mut kept = Vec::new();
    let mut floats: i64 = 64 << 20;
    loop {
        match Tensor::f_zeros([floats], (tch::Kind::Float, device)) {
            Ok(block) => kept.push(block),
            Err(_) if floats > 1 << 20 => floats /= 4,
            // Once more by the call that panics, as a training loop has it.
            Err(_) => kept.push(Tensor::zeros([floats], (tch::Kind::Float, device))),
        }
    }
}

/// Sets a limit as a grant does, until the next attempt's. Where it cannot be set, the GPU's memory is
/// the limit.
fn limit(device: tch::Device) {
    let tch::Device::Cuda(index) = device else {
        return;
    };
    if let (Ok((_, total)), Ok(stats)) = (gpu::memory_info(index), gpu::allocator_stats(index)) {
        let part = (stats.reserved + ROOM) as f64 / total.max(1) as f64;
        let _ = gpu::set_memory_fraction(index, part.min(1.0));
    }
}

type Handle = *mut c_void;

/// Starts a kernel of [`PTX`] on the legacy stream and does not wait for it.
fn launch(name: &CStr, device: tch::Device) {
    // libtorch makes the device's primary context, and makes it this thread's.
    touch(device);
    // SAFETY: the signatures are those of the driver's API since CUDA 4; every pointer outlives
    // its call. The module and the buffer are never freed: the context is about to be lost.
    unsafe {
        let Some(driver) = Driver::open() else {
            return;
        };
        let (mut module, mut function): (Handle, Handle) = (ptr::null_mut(), ptr::null_mut());
        let mut buffer = 0u64;
        let prepared = (driver.load)(&mut module, PTX.as_ptr().cast()) == 0
            && (driver.function)(&mut function, module, name.as_ptr()) == 0
            && (driver.allocate)(&mut buffer, 256) == 0
            && (driver.set)(buffer, 0, 256) == 0;
        if !prepared {
            return;
        }
        let mut arguments = [(&raw mut buffer).cast::<c_void>()];
        let (stream, extra) = (ptr::null_mut(), ptr::null_mut());
        let arguments = arguments.as_mut_ptr();
        (driver.launch)(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, extra);
    }
}

type Load = unsafe extern "C" fn(*mut Handle, *const c_void) -> c_int;
type Function = unsafe extern "C" fn(*mut Handle, Handle, *const c_char) -> c_int;
type Allocate = unsafe extern "C" fn(*mut u64, usize) -> c_int;
type Set = unsafe extern "C" fn(u64, u8, usize) -> c_int;
/// Function, grid, block, shared memory, stream, arguments, extra.
type Launch = unsafe extern "C" fn(
    Handle,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    Handle,
    *mut *mut c_void,
    *mut *mut c_void,
) -> c_int;

/// What is used of `libcuda.so.1`, which every process with a CUDA context has loaded.
struct Driver {
    load: Load,
    function: Function,
    allocate: Allocate,
    set: Set,
    launch: Launch,
}

impl Driver {
    /// # Safety
    /// The library must be NVIDIA's: the symbols are taken for functions of these types.
    unsafe fn open() -> Option<Driver> {
        // SAFETY: C strings; see above for the types.
        unsafe {
            let library = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW);
            let find = |name: &CStr| {
                let symbol = libc::dlsym(library, name.as_ptr());
                (!library.is_null() && !symbol.is_null()).then_some(symbol)
            };
            Some(Driver {
                load: std::mem::transmute::<Handle, Load>(find(c"cuModuleLoadData")?),
                function: std::mem::transmute::<Handle, Function>(find(c"cuModuleGetFunction")?),
                allocate: std::mem::transmute::<Handle, Allocate>(find(c"cuMemAlloc_v2")?),
                set: std::mem::transmute::<Handle, Set>(find(c"cuMemsetD8_v2")?),
                launch: std::mem::transmute::<Handle, Launch>(find(c"cuLaunchKernel")?),
            })
        }
    }
}
