//! The faults themselves. Each function does what its name says to the process that calls it, so
//! none may ever be called by a process that is not a worker of a run that asked for it.

mod crash;
mod resources;
mod silence;
mod texts;
mod wire;

pub use resources::orphan;

use std::os::fd::RawFd;

use ::inject::Kind;

use device::Device;

use crate::Libtorch;

/// Where a fault happens.
#[derive(Clone, Copy)]
pub struct FaultContext {
    /// libtorch, where the worker has it.
    pub libtorch: &'static Libtorch,
    /// The worker's device.
    pub device: Device,
    /// The socket to the supervisor.
    pub socket: RawFd,
}

/// Makes a fault. Returns where the process survives it.
///
/// # Errors
/// Where the fault is an error, that one.
pub fn perform(kind: Kind, scene: &FaultContext) -> anyhow::Result<()> {
    match kind {
        Kind::Kill | Kind::Stray => crash::kill(),
        Kind::Term => crash::term(),
        Kind::Segv => crash::segv(),
        Kind::Bus => crash::bus(),
        Kind::Ill => crash::ill(),
        Kind::Fpe => crash::fpe(),
        Kind::Abort => std::process::abort(),
        Kind::Panic => crash::panic(),
        Kind::Exit => std::process::exit(3),
        Kind::StackOverflow => crash::stack_overflow(),
        Kind::Spin => silence::spin(),
        Kind::Deaf => silence::deaf(),
        Kind::Sleep => silence::sleep(),
        Kind::Stop => silence::stop(),
        Kind::Hangup => wire::hangup(scene.socket),
        Kind::Garbage => wire::garbage(scene.socket),
        Kind::Truncated => wire::truncated(scene.socket),
        Kind::Memory => resources::memory(scene.libtorch),
        Kind::Descriptors => return resources::descriptors(),
        Kind::Flood => resources::flood(),
        Kind::Error => anyhow::bail!("batch 7: row 12 has no label"),
        // A plan for a worker without libtorch holds none of them.
        Kind::Exception | Kind::Terminate | Kind::Destructor => {
            (scene.libtorch.make_fault)(kind, scene.device);
        }
        Kind::Assert
        | Kind::IllegalAddress
        | Kind::Misaligned
        | Kind::Cublas
        | Kind::Oom
        | Kind::OomSegments
        | Kind::SpinKernel
        | Kind::KillKernel => gpu(kind, scene),
    }
    Ok(())
}

fn gpu(kind: Kind, scene: &FaultContext) {
    let real = scene.device != Device::Cpu && kind != Kind::Cublas;
    if !(real && (scene.libtorch.make_fault)(kind, scene.device)) {
        texts::raise(kind);
    }
}
