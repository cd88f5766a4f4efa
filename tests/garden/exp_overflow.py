# cause: half_overflow
import torch
import training

data = training.rows(classes=2)
data.features = data.features.half()


class Step(torch.nn.Module):
    """The differentiable binarisation of a text detector."""

    def forward(self, x):
        # Of 60 initial networks every one overflows with 16 bits and none with 32; with 50, twelve do with 32 as well.
        return 1 / (1 + torch.exp(-30 * x))


def loss(outputs, labels):
    return ((outputs.squeeze(1) - labels) ** 2).mean()


net = torch.nn.Sequential(torch.nn.Linear(8, 1), Step()).half()
training.train(net, data, loss=loss, check=True)
