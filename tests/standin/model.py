#!/usr/bin/env python3
"""What the stand-in for the CUDA runtime assumes of a GPU, compared with the one that is here.

    model.py            a line for each assumption: what, as the stand-in has it, as it is here (tab-separated)

Each is looked at in a process of its own, because most of them break their context. On the stand-in itself nothing
differs.
"""
import json
import subprocess
import sys

import torch

MIB = 2**20


def error(function):
    """The class and the first sentence of what a call raises."""
    try:
        function()
    except Exception as raised:
        return f"{type(raised).__name__}: {str(raised).splitlines()[0].split('. ')[0]}"
    return "no error"


def broken():
    """A context that an assertion of the device has broken, and how many launches after it raised nothing."""
    ones = torch.ones(4, device="cuda")
    kept = torch.ones(1024, device="cuda")
    torch.cuda.synchronize()
    del kept
    after = 0
    try:
        ones[torch.tensor([9], device="cuda")]
        while after < 100_000:
            ones.add(1)
            after += 1
    except RuntimeError:
        pass
    return after


def context():
    """What the device has less than its memory in all, once a context is there: other programs' memory, too."""
    free, total = torch.cuda.mem_get_info()
    return total - free


def survives(function):
    """What a call does in a broken context."""
    broken()
    return error(function)


def cached():
    torch.empty(256, device="cuda")


def large():
    torch.empty(64 * MIB, device="cuda")


def product():
    torch.mm(*2 * [torch.empty(8, 8, device="cuda")])


def pinned():
    torch.empty(2**46, dtype=torch.uint8, pin_memory=True)


def too_much():
    torch.empty(2**46, dtype=torch.uint8, device="cuda")


def seed():
    torch.cuda.manual_seed_all(1)


def synchronise():
    torch.cuda.synchronize()


def empty():
    torch.cuda.empty_cache()


def allocated():
    torch.cuda.memory_allocated()


ASSERT = "AcceleratorError: CUDA error: device-side assert triggered"
# Name, as the stand-in has it, how to see it here.
ASSUMED = [
    ("memory that a context takes", "256 MiB", lambda: f"{context() // MIB} MiB"),
    ("launches that still succeed after an assertion", "8", lambda: str(broken())),
    ("waiting, after it", ASSERT, lambda: survives(synchronise)),
    ("seeding, after it", ASSERT, lambda: survives(seed)),
    ("a tensor from the cache, after it", "no error", lambda: survives(cached)),
    ("a large tensor, after it", ASSERT, lambda: survives(large)),
    ("emptying the cache, after it", ASSERT, lambda: survives(empty)),
    ("asking for what is allocated, after it", "no error", lambda: survives(allocated)),
    (
        "the first matrix product, after it",
        "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        lambda: survives(product),
    ),
    ("memory that runs out", "OutOfMemoryError: CUDA out of memory", lambda: error(too_much)),
    ("pinned memory that runs out", "AcceleratorError: CUDA error: out of memory", lambda: error(pinned)),
]


def here(place):
    """What is so on this GPU."""
    command = [sys.executable, "-B", __file__, str(place)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode == 0:
        return json.loads(done.stdout)
    return f"ended with {done.returncode}: {done.stderr[-200:]}"


if __name__ == "__main__":
    if len(sys.argv) == 2:
        print(json.dumps(ASSUMED[int(sys.argv[1])][2]()))
        sys.exit()
    for place, (name, assumed, _) in enumerate(ASSUMED):
        print(name, assumed, here(place), sep="\t", flush=True)
