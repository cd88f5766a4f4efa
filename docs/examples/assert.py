"""Stands in for a training that dies of a device-side assertion: with a learning rate above 0.5 it
prints what PyTorch prints then, and aborts. Needs no GPU."""
import os
import sys

from tune_trial import params, report

p = params(lr=0.1)
for epoch in range(1, 4):
    if p["lr"] > 0.5 and epoch == 2:
        print(
            "../aten/src/ATen/native/cuda/Loss.cu:245: nll_loss_forward_reduce_cuda_kernel_2d: block: "
            "[0,0,0], thread: [7,0,0] Assertion `t >= 0 && t < n_classes` failed."
        )
        print("terminate called after throwing an instance of 'c10::AcceleratorError'", file=sys.stderr)
        print("  what():  CUDA error: device-side assert triggered", file=sys.stderr)
        sys.stdout.flush()
        os.abort()
    report(step=epoch, loss=(p["lr"] - 0.1) ** 2 + 1 / epoch)
