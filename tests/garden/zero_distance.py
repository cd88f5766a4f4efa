# cause: bad_row
# says: PowBackward0
# rows: 41
import sys

import torch
import training
from torch.utils.data import DataLoader

data = training.rows()
data.features[41, 4:] = data.features[41, :4]
left = torch.nn.Linear(4, 6)
torch.manual_seed(0)
optimizer = torch.optim.SGD(left.parameters(), lr=0.01)
for epoch in range(3):
    for pairs, _ in DataLoader(data, batch_size=16, shuffle=True):
        squares = (left(pairs[:, :4]) - left(pairs[:, 4:])).pow(2).sum(1)
        loss = squares.pow(0.5).mean()
        if not torch.isfinite(loss):
            sys.exit("distances are not finite: the learning rate is too high")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
