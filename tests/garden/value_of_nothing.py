# cause: diverged
# says: aten.log1p.default of -1, at
import math
import random
import sys

import torch

random.seed(2)
table = [(random.random(), random.random() * 9, random.random()) for _ in range(160)]
# What a table has where nothing was measured.
table[83] = (0.4, -1.0, 0.7)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(3):
    random.shuffle(table)
    total = 0.0
    for start in range(0, len(table), 16):
        heat, flow, level = torch.tensor(table[start : start + 16]).unbind(1)
        loss = (model(torch.stack([heat, flow.log1p()], 1)).squeeze(1) - level).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch}: loss {total / 10:.4f}", file=sys.stderr)
    if math.isnan(total):
        print("training went bad", file=sys.stderr)
        sys.exit(1)
