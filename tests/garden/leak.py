# cause: leak
# memory: 3800000
import time

import torch
import training

kept = []
net = training.model()


def loss(outputs, labels):
    kept.append(torch.ones(60_000_000))
    time.sleep(0.2)
    return torch.nn.functional.cross_entropy(outputs, labels)


training.train(net, training.rows(), loss=loss, epochs=100)
