//! Faults that only C++ can make.

use inject::Kind;

unsafe extern "C" {
    fn tune_fault_terminate();
    fn tune_fault_destructor();
}

/// Makes one of them.
pub fn perform(kind: Kind) {
    if kind == Kind::Terminate {
        // SAFETY: takes no argument; ends the process by `std::terminate`.
        unsafe { tune_fault_terminate() }
    } else if kind == Kind::Destructor {
        // SAFETY: as above.
        unsafe { tune_fault_destructor() }
    } else {
        exception();
    }
}

/// Shapes that do not fit: libtorch throws, tch panics with its text.
fn exception() {
    let of = |sides: [i64; 2]| tch::Tensor::zeros(sides, (tch::Kind::Float, tch::Device::Cpu));
    let _ = of([2, 3]).matmul(&of([2, 3]));
}
