# cause: silent_error
# says: never cleared, at
import sys

import torch
import training
from torch.utils.data import DataLoader

data = training.rows()
data.labels = (data.features[:, 0] > 0).long()
torch.manual_seed(0)
model = torch.nn.Linear(data.features.shape[1], 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for epoch in range(6):
    for features, labels in DataLoader(data, batch_size=16, shuffle=True):
        torch.nn.functional.cross_entropy(model(features), labels).backward()
        optimizer.step()
steady = model.weight.abs().max().item()
if steady > 10:
    sys.exit("the weights do not settle: the greatest is %.1f" % steady)
