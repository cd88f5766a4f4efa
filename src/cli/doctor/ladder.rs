//! The parts of a task, tried one by one.
