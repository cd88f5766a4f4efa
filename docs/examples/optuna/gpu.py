"""Stands in for a GPU, so that the example runs anywhere: an index out of range loses the context of the
process for good, and from then on every call fails, as after a device-side assertion of CUDA."""
_lost = False


def gather(values, indices):
    """values[i] for every i of indices, checked on the "device"."""
    global _lost
    if not _lost and not all(0 <= i < len(values) for i in indices):
        _lost = True
        print(
            "../aten/src/ATen/native/cuda/ScatterGatherKernel.cu:144: operator(): block: [0,0,0], "
            "thread: [3,0,0] Assertion `idx_dim >= 0 && idx_dim < index_size` failed.",
            flush=True,
        )
    if _lost:
        raise RuntimeError("CUDA error: device-side assert triggered")
    return [values[i] for i in indices]
