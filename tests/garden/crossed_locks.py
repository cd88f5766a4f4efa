# cause: crossed_locks
# says: in publish) and waits for
import copy
import threading
import time

import torch


class Shared:
    def __init__(self, model):
        self.model, self.lock = model, threading.Lock()

    def copied(self):
        with self.lock:
            return copy.deepcopy(self.model)


class Scores:
    def __init__(self):
        self.rows, self.lock = [], threading.Lock()

    def add(self, value):
        with self.lock:
            self.rows.append(value)

    def publish(self, shared):
        with self.lock:
            time.sleep(0.05)
            model = shared.copied()
            self.rows.append(sum(p.sum().item() for p in model.parameters()))


def evaluate():
    while True:
        scores.publish(shared)


torch.manual_seed(0)
shared, scores = Shared(torch.nn.Linear(4, 1)), Scores()
optimizer = torch.optim.SGD(shared.model.parameters(), 0.01)
threading.Thread(target=evaluate, daemon=True).start()
for step in range(1000):
    with shared.lock:
        loss = shared.model(torch.randn(8, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scores.add(loss.item())
print("trained")
