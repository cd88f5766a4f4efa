# cause: disk_full
# disk: 1m
import os

import torch
import training

for step in range(3):
    torch.save(training.model(width=8000).state_dict(), os.path.join(os.environ["DISK"], f"{step}.pt"))
