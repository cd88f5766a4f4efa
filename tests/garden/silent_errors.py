"""Mistakes of a training that raise no error, each in a function that begins with doctor's name of it, and what is none."""

import os
import warnings

import torch
from torch.nn.functional import cross_entropy, mse_loss

x = torch.randn(12, 4, generator=torch.Generator().manual_seed(0))
heights, classes = x.sum(1), x[:, :3].argmax(1)
one, three = torch.nn.Linear(4, 1), torch.nn.Linear(4, 3)


def sgd(model, rate=0.1):
    return torch.optim.SGD(model.parameters(), lr=rate)


def train(optimizer, clear, loss, steps=1):
    """Gives each step to its caller: the line that is noted is the caller's."""
    for step in range(12):
        if step % steps == 0:
            clear()
        loss().backward()
        if step % steps == steps - 1:
            yield optimizer.step


def crossed_by_hand():
    (one(x) - heights).abs().mean().backward()


def crossed_in_a_loss():
    mse_loss(one(x), heights).backward()


def crossed_the_other_way():
    mse_loss(one(x).squeeze(1), heights[:, None]).backward()


def probabilities_as_logits():
    cross_entropy(three(x).softmax(1), classes).backward()


def probabilities_as_logits_of_two():
    torch.nn.functional.binary_cross_entropy_with_logits(one(x).sigmoid(), (heights[:, None] > 0).float()).backward()


def gradients_kept():
    for step in train(sgd(three), lambda: None, lambda: cross_entropy(three(x), classes)):
        step()


def no_gradients():
    other = sgd(torch.nn.Linear(4, 3))
    for step in train(other, other.zero_grad, lambda: cross_entropy(three(x), classes)):
        step()


def rate_of_zero():
    optimizer = sgd(three, rate=0.0)
    for step in train(optimizer, optimizer.zero_grad, lambda: cross_entropy(three(x), classes)):
        step()


def updates_lost():
    gain = torch.nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
    optimizer = torch.optim.SGD([gain], lr=1e-4)
    for step in train(optimizer, optimizer.zero_grad, lambda: cross_entropy(three(x).detach() * gain, classes)):
        step()


def fine_shapes():
    mse_loss(one(x), heights[:, None]).backward()
    mse_loss(one(x).squeeze(1), heights).backward()
    frequencies = torch.nn.Parameter(torch.ones(12))
    (heights[:, None] * frequencies).sin().sum().backward()
    distances = one(x) - one(x).T
    (distances.abs().mean() + cross_entropy(three(x).log_softmax(1), classes)).backward()


def fine_steps():
    def loss():
        return cross_entropy(three(x), classes)

    optimizer = sgd(three)
    ways = [optimizer.zero_grad, lambda: optimizer.zero_grad(set_to_none=False), three.zero_grad]
    for clear in ways:
        for steps in (1, 3):
            for step in train(optimizer, clear, loss, steps):
                step()
    warm = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: min(1.0, epoch / 3))
    for step in train(optimizer, optimizer.zero_grad, loss):
        step()
        warm.step()
    half = torch.nn.Linear(4, 3).bfloat16()
    optimizer = sgd(half)
    for step in train(optimizer, optimizer.zero_grad, lambda: cross_entropy(half(x.bfloat16()).float(), classes)):
        step()


warnings.simplefilter("ignore")
for name, act in list(globals().items()):
    if name.startswith(("crossed", "probabilities", "gradients", "no_", "rate", "updates", "fine")):
        # A process notes one.
        child = os.fork()
        if child == 0:
            act()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0, name
