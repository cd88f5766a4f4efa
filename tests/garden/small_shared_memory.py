# cause: shared_memory
# shared memory: 1m
import torch
import training

data = training.rows(count=64)
data.features = torch.randn(64, 60_000)
training.train(training.model(width=60_000), data, num_workers=2)
