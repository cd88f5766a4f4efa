"""A module that changes what is not its own."""

import torch

torch.set_default_dtype(torch.float64)
