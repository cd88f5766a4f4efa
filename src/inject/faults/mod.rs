//! The faults themselves. Each function does what its name says to the process that calls it, so
//! none may ever be called by a process that is not a worker of a run that asked for it.

#[cfg(feature = "torch")]
mod cpp;
mod crash;
#[cfg(feature = "torch")]
mod cuda;
mod resources;
mod silence;
mod texts;
mod wire;

pub use resources::stray;

use std::os::fd::RawFd;

use super::Kind;
use crate::gpu::Device;

/// Where a fault happens.
#[derive(Debug, Clone, Copy)]
pub struct Scene {
    /// The worker's device.
    pub device: Device,
    /// The socket to the supervisor.
    pub socket: RawFd,
}

/// Makes a fault. Returns where the process survives it.
///
/// # Errors
/// Where the fault is an error, that one.
pub fn perform(kind: Kind, scene: &Scene) -> anyhow::Result<()> {
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
        Kind::Memory => resources::memory(),
        Kind::Descriptors => return resources::descriptors(),
        Kind::Flood => resources::flood(),
        Kind::Error => anyhow::bail!("batch 7: row 12 has no label"),
        Kind::Exception | Kind::Terminate | Kind::Destructor => libtorch(kind),
        Kind::Assert
        | Kind::IllegalAddress
        | Kind::Misaligned
        | Kind::Cublas
        | Kind::Oom
        | Kind::OomSegments
        | Kind::SpinKernel
        | Kind::KillKernel => gpu(kind, scene.device),
    }
    Ok(())
}

#[cfg(feature = "torch")]
fn libtorch(kind: Kind) {
    cpp::perform(kind);
}

/// A plan for this binary holds none of them.
#[cfg(not(feature = "torch"))]
fn libtorch(_kind: Kind) {}

fn gpu(kind: Kind, device: Device) {
    match device {
        #[cfg(feature = "torch")]
        Device::Cuda(_) if kind != Kind::Cublas => cuda::perform(kind, device),
        Device::Cpu | Device::Cuda(_) => texts::raise(kind),
    }
}
