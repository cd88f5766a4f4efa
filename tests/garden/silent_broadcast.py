# cause: silent_error
# says: [n, 1]
import sys

import torch
import training
from torch.utils.data import DataLoader

data = training.rows()
torch.manual_seed(0)
heights = data.features @ torch.randn(data.features.shape[1])
data.labels = heights / heights.std()
model = torch.nn.Linear(data.features.shape[1], 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
for epoch in range(5):
    for features, wanted in DataLoader(data, batch_size=16, shuffle=True):
        optimizer.zero_grad()
        (model(features) - wanted).abs().mean().backward()
        optimizer.step()
error = (model(data.features).flatten() - data.labels).abs().mean().item()
if error > 0.5:
    sys.exit("an error of %.2f is not better than a guess" % error)
