//! Everything that needs libtorch: training, predicting, and what a worker asks of a device. `tune` itself is linked
//! without it, and loads this library where a trial trains ([`entry`]).

mod commands;
pub mod entry;
mod faults;
pub mod gpu;
mod libtorch;
mod rungs;
pub mod train;

pub use libtorch::LIBTORCH;
