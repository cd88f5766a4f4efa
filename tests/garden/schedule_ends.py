# cause: schedule_ends
import torch
import training
from torch.utils.data import DataLoader

EPOCHS = 3
model = training.model()
loader = DataLoader(training.rows(), batch_size=16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=EPOCHS * len(loader))
# That of a run of two epochs, with which the training goes on.
shorter = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=2 * len(loader))
schedule.load_state_dict(shorter.state_dict())
for epoch in range(EPOCHS):
    for features, labels in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(features), labels).backward()
        optimizer.step()
        schedule.step()
