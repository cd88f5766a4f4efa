"""A small training, which the programs of the garden share."""

import torch
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    """Features and labels in memory; `touch` may do something to a row as it is read."""

    def __init__(self, features, labels, touch=lambda index: None):
        self.features, self.labels, self.touch = features, labels, touch

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        self.touch(index)
        return self.features[index], self.labels[index]


def rows(count=128, width=8, classes=3, touch=lambda index: None):
    generator = torch.Generator().manual_seed(3)
    features = torch.randn(count, width, generator=generator)
    return Rows(features, torch.randint(0, classes, (count,), generator=generator), touch)


def model(width=8, classes=3):
    return torch.nn.Sequential(torch.nn.Linear(width, 16), torch.nn.ReLU(), torch.nn.Linear(16, classes))


def train(model, data, loss=None, epochs=2, check=False, **loader):
    loss = loss or torch.nn.CrossEntropyLoss()
    loader = {"batch_size": 16, "shuffle": True, **loader}
    torch.manual_seed(0)
    for epoch in range(epochs):
        for features, labels in DataLoader(data, **loader):
            model.zero_grad()
            value = loss(model(features), labels)
            if check and not torch.isfinite(value):
                raise ValueError(f"loss is {value.item()}")
            value.backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.01 * parameter.grad
        print(f"epoch {epoch}: loss {value.item():.3f}", flush=True)
