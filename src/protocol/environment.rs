//! What a supervisor tells a worker before it runs: variables of its environment.

/// Tells a worker that expandable segments were our choice: where they do not work, it says so.
pub const EXPANDABLE: &str = "TUNE_EXPANDABLE_SEGMENTS";

/// Tells a worker that it sees its GPU alone.
pub const ALONE: &str = "TUNE_DEVICE_ALONE";

/// Tells a worker that it needs libtorch: the path of the library that has it.
pub const NEEDS_LIBTORCH: &str = "TUNE_NEEDS_LIBTORCH";
