//! What every sampler must do, whatever its algorithm.
