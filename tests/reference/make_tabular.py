"""Writes tests/reference/tabular.safetensors: the model of a table as PyTorch computes it, with losses and gradients.
Needs torch 2.11; run it in tests/reference.
"""

import json

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

ROWS, NUMBERS, PLACES, EMBEDDING, HIDDEN, CLASSES = 12, 4, (4, 3), 3, 7, 3


class Table(nn.Module):
    """Embedded categories behind the numbers, then linear layers with GELU between them."""

    def __init__(self, outputs):
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(places, EMBEDDING) for places in PLACES)
        sizes = [NUMBERS + EMBEDDING * len(PLACES), HIDDEN, HIDDEN, outputs]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))

    def forward(self, numbers, categories):
        embedded = [table(categories[:, at]) for at, table in enumerate(self.embeddings)]
        x = torch.cat([numbers, *embedded], 1)
        for at, layer in enumerate(self.layers):
            x = layer(F.gelu(x) if at else x)
        return x


def main():
    torch.manual_seed(0)
    numbers = torch.randn(ROWS, NUMBERS)
    categories = torch.stack([torch.randint(places, (ROWS,)) for places in PLACES], 1)
    classes, targets = torch.randint(CLASSES, (ROWS,)), 2 * torch.randn(ROWS)
    counts = torch.tensor([10.0, 30.0, 20.0])
    weights = counts.sum() / (CLASSES * counts)
    losses = {
        "classes": {
            "ce": lambda out: F.cross_entropy(out, classes, weights, reduction="none", label_smoothing=0.1)
        },
        "number": {
            "mse": lambda out: F.mse_loss(out[:, 0], targets, reduction="none"),
            "huber": lambda out: F.huber_loss(out[:, 0], targets, reduction="none", delta=0.7),
        },
    }
    tensors = {"numbers": numbers, "categories": categories.int(), "classes": classes.int(), "targets": targets}
    for case, outputs in [("classes", CLASSES), ("number", 1)]:
        model = Table(outputs)
        out = model(numbers, categories)
        tensors[f"{case}.outputs"] = out.detach()
        for name, parameter in model.named_parameters():
            tensors[f"{case}.{name}"] = parameter.detach().clone()
        for loss, function in losses[case].items():
            rows = function(out)
            tensors[f"{case}.{loss}"] = rows.detach()
            gradients = torch.autograd.grad(rows.sum(), list(model.parameters()), retain_graph=True)
            for (name, _), gradient in zip(model.named_parameters(), gradients):
                tensors[f"{case}.{loss}.{name}"] = gradient
    numeric = [dict(column="numeric", name=f"n{i}", mean=0.0, deviation=1.0, missing=False) for i in range(NUMBERS)]
    named = [
        dict(column="categorical", name=f"c{i}", values=[f"v{v}" for v in range(1, places)])
        for i, places in enumerate(PLACES)
    ]
    about = dict(
        format=1, target="y", labels=["a", "b", "c"], train_rows=[10, 30, 20], scale=None,
        encoding=numeric + named, layers=2, hidden=HIDDEN, activation="gelu", embedding=EMBEDDING,
    )
    contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
    save_file(contiguous, "tabular.safetensors", metadata={"classes": json.dumps(about)})


if __name__ == "__main__":
    main()
