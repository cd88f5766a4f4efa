//! Faults that only C++ and a GPU can make.

mod cpp;
mod cuda;

use device::Device;
use inject::Kind;

/// Makes one of them; false: it is none of them.
pub fn make(kind: Kind, device: Device) -> bool {
    match (kind, device) {
        (Kind::Exception | Kind::Terminate | Kind::Destructor, _) => cpp::perform(kind),
        (_, Device::Cuda(_)) => cuda::perform(kind, device),
        (_, Device::Cpu) => return false,
    }
    true
}

/// Takes memory of the host until there is none: libtorch throws, and tch panics with its text.
pub fn take_all_memory() {
    let mut kept = Vec::new();
    loop {
        kept.push(tch::Tensor::ones(
            [16 << 20],
            (tch::Kind::Float, tch::Device::Cpu),
        ));
    }
}
