# cause: left_behind
# earlier: 100
# arguments: 128
# says: cache/features.pt
import os
import sys

import torch
import training

rows = training.rows(int(sys.argv[1]))
try:
    features = torch.load("cache/features.pt")
except FileNotFoundError:
    os.mkdir("cache")
    features = rows.features
    torch.save(features, "cache/features.pt")
training.train(training.model(), training.Rows(features, rows.labels))
