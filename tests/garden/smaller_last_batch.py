# cause: last_batch
import torch
import training

weights = torch.ones(16)
data = training.rows(count=100)


def loss(outputs, labels):
    each = torch.nn.functional.cross_entropy(outputs, labels, reduction="none")
    return (each * weights).mean()


training.train(training.model(), data, loss=loss)
