//! What every database passes; `Bench` is what includes this file says it is.

use super::*;

mod foreign;
mod gpus;
mod import;
mod memory;
mod repeats;
mod studies;
mod writes;
