//! Parity with transformers.
