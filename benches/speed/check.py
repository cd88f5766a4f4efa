#!/usr/bin/env python3
"""Shows that the encoders written here compute what transformers' do, on random weights (needs transformers)."""
import sys
import tempfile
from pathlib import Path

import encoder
import made
import torch


def main():
    worst = 0.0
    for name in made.CONFIGS:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model"
            made.checkpoint(f"{name}-small", path)
            ids = torch.randint(5, 1000, (3, 300))
            mask = torch.arange(300) < torch.tensor([300, 150, 7])[:, None]
            ours, theirs = (load(path, 2, 0.0).eval().encoder for load in (encoder.load, encoder.load_transformers))
            with torch.inference_mode():
                error = ((ours(ids, mask) - theirs(ids, mask)).abs() * mask[..., None]).max().item()
        print(f"{name}: the greatest difference is {error:.1e}")
        worst = max(worst, error)
    sys.exit(worst > 1e-4)


if __name__ == "__main__":
    main()
