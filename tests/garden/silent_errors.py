"""Mistakes of a training that raise no error, each in a function that begins with doctor's name of it. `no_mistakes.py` has what is none."""

import argparse
import copy
import io
import os
import queue
import random
import signal
import sys
import tempfile
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


def never_stepped():
    optimizer = sgd(three)
    for _ in range(20):
        optimizer.zero_grad()
        for _ in range(2):
            cross_entropy(three(x), classes).backward()


def removed_before():
    def folder():
        return tempfile.TemporaryDirectory().name

    try:
        open(folder() + "/a.txt", "w")
    except OSError as error:
        sys.excepthook(type(error), error, error.__traceback__)


def name_differs():
    row = {"\ufeffname": "a", "cafe\u0301": "b"}
    try:
        row["name"]
    except KeyError as error:
        sys.excepthook(KeyError, error, error.__traceback__)


def rate_of_zero():
    optimizer = sgd(three, rate=0.0)
    for step in train(optimizer, optimizer.zero_grad, lambda: cross_entropy(three(x), classes)):
        step()


def updates_lost():
    gain = torch.nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
    optimizer = torch.optim.SGD([gain], lr=1e-4)
    for step in train(optimizer, optimizer.zero_grad, lambda: cross_entropy(three(x).detach() * gain, classes)):
        step()


def updates_lost_in_an_average():
    average = torch.zeros(8, dtype=torch.bfloat16) + 1
    for _ in range(8):
        average.lerp_(torch.full((8,), 1.5, dtype=torch.bfloat16), 0.001)


class Normalised(torch.utils.data.Dataset):
    def __init__(self, change, rows):
        self.change, self.rows, self.room = change, rows.clone(), torch.empty(2, 4)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, at):
        return self.change(self, self.rows[at])


def normalised(change, data=Normalised):
    loader = torch.utils.data.DataLoader(data(change, x), batch_size=4)
    for _ in range(3):
        list(loader)


def rows_changed(data=None, row=None):
    if row is None:
        normalised(rows_changed)
    return row if row is None else row.sub_(0.5).div_(2.0)


def rows_changed_by_minus():
    def change(data, row):
        rows_changed_by_minus_at(data, 3)
        return row

    normalised(change)


def rows_changed_by_minus_at(data, at):
    data.rows[at] -= 0.5


def rows_changed_in_place(data, row):
    return row.mul_(1.5)


class Decoded(Normalised):
    def __init__(self, change, rows):
        super().__init__(change, rows)
        self.decoded, self.sums = {}, [torch.zeros(4) for _ in range(4)]

    def __getitem__(self, at):
        if at not in self.decoded:
            self.decoded[at] = self.rows[at] / 2
        return self.change(self, self.decoded[at])


def rows_changed_that_are_kept():
    normalised(rows_changed_in_place, Decoded)


def rows_changed_of_numpys():
    import numpy

    class Counted(Decoded):
        def __init__(self, change, rows):
            super().__init__(change, rows)
            self.table, self.seen = numpy.array(rows.tolist()), numpy.zeros(len(rows))

        __getitem__ = rows_changed_of_a_table

    normalised(None, Counted)


def rows_changed_of_a_table(data, at):
    row = data.table[at]
    data.seen[at] += 1
    row -= 0.5
    return torch.from_numpy(row)


def lengths_differ():
    list(zip(range(100), range(90)))


def rounded():
    torch.tensor([[1.7e9 + 0.25 * row, 0.5] for row in range(100)])


def rounded_in_a_conversion():
    (1_700_000_000 + torch.arange(100)).float()


class Jittered(torch.utils.data.Dataset):
    jitter = 0.0

    def __init__(self):
        self.jitter = 0.0

    def __len__(self):
        return 4

    def __getitem__(self, row):
        return self.jitter


def passes(**settings):
    """Gives the loader's dataset to its caller before each pass."""
    data = Jittered()
    loader = torch.utils.data.DataLoader(data, num_workers=1, **settings)
    for _ in range(3):
        yield data, loader


def workers_stale():
    for data, loader in passes(persistent_workers=True):
        data.jitter += 0.5
        list(loader)


def overwritten():
    waiting, staging = queue.Queue(), torch.zeros(4)
    for row in range(3):
        staging.fill_(row)
        waiting.put((staging, row))
    waiting.get()


def numbered_set():
    {name: at for at, name in enumerate({"ham", "spam", "egg"})}


def training_mode():
    with torch.no_grad():
        torch.nn.Dropout(0.5)(x)


def epochs(update):
    """Trains ten steps and gives its caller a moment to evaluate, again and again."""
    optimizer = sgd(three)
    for _ in range(5):
        for step in train(optimizer, optimizer.zero_grad, lambda: cross_entropy(three(x), classes)):
            step()
            with torch.no_grad():
                update()
        yield


def copy_stale():
    copy = torch.nn.Linear(4, 3).eval()
    for _ in epochs(lambda: copy.weight * 0.9 + three.weight * 0.1):
        with torch.no_grad():
            copy(x)


def statistics_unset():
    network = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    average, optimizer = copy.deepcopy(network).eval(), sgd(network)
    for step in train(optimizer, optimizer.zero_grad, lambda: cross_entropy(network(x), classes), 4):
        step()
        with torch.no_grad():
            for kept, trained in zip(average.parameters(), network.parameters()):
                kept.lerp_(trained, 0.1)
            average(x)


def stays_in_evaluation():
    network = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Dropout(0.1))
    optimizer = sgd(network)
    for number, step in enumerate(train(optimizer, optimizer.zero_grad, lambda: cross_entropy(network(x), classes))):
        step()
        if number == 2:
            network.eval()


def time_first():
    layer, last = torch.nn.LSTM(4, 6), torch.nn.Linear(6, 3)
    rows, optimizer = torch.utils.data.TensorDataset(torch.randn(12, 5, 4), classes), sgd(layer)
    for series, targets in torch.utils.data.DataLoader(rows, batch_size=3):
        optimizer.zero_grad()
        cross_entropy(last(layer(series)[0][:, -1]), targets).backward()
        optimizer.step()


class Drawn(torch.utils.data.Dataset):
    def __init__(self, seed):
        self.draw = random.Random(seed)

    def __len__(self):
        return 8

    def __getitem__(self, row):
        return x[row] + self.draw.random(), classes[row]


def drawn(data, epochs=3, **settings):
    loader, optimizer = torch.utils.data.DataLoader(data, batch_size=4, num_workers=1, **settings), sgd(three)
    for epoch in range(epochs):
        for rows, targets in loader:
            optimizer.zero_grad()
            cross_entropy(three(rows), targets).backward()
            optimizer.step()


def rows_again():
    drawn(torch.utils.data.Subset(Drawn(0), range(8)))


def saved_whole():
    kept = torch.zeros(1000, 1000)
    torch.save({"last": kept[-1], "mean": kept[0]}, io.BytesIO())


def no_gradients_of_a_scaler():
    scaler, last = torch.amp.GradScaler("cpu"), torch.nn.Linear(4, 3)
    scaler.scale(cross_entropy(three(x), classes)).backward()
    try:
        scaler.step(sgd(last))
    except AssertionError:
        pass


def hooks_kept():
    def hooks_kept_again(module, args, output):
        return output * 0.5

    layer = torch.nn.Linear(4, 3)
    layer(x)
    for channel in range(12):
        layer.register_forward_hook(hooks_kept_again)
        layer(x)


def gradient_differs():
    class Swish(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, temperature):
            ctx.save_for_backward(x, temperature)
            return x * (x * temperature).sigmoid()

        @staticmethod
        def backward(ctx, gradient):
            x, temperature = ctx.saved_tensors
            inner = (x * temperature).sigmoid()
            return gradient * (inner + x * temperature * inner), None

    optimizer = sgd(three)
    Swish.apply(three(x), torch.tensor(2.0)).sum().backward()
    optimizer.step()


def wrapped():
    frames = torch.full((3, 8), 100, dtype=torch.uint8)
    frames[0] + frames[1] + frames[2]


def wrapped_of_16_bits():
    clip = torch.tensor([100, 20_000], dtype=torch.int16)
    clip * 32 - clip * 31


def own_state():
    network = torch.nn.Linear(4, 3)
    best, optimizer = network.state_dict(), sgd(network)
    for step in train(optimizer, optimizer.zero_grad, lambda: cross_entropy(network(x), classes)):
        step()
    network.load_state_dict(best)


def padding_read():
    attend = torch.nn.MultiheadAttention(4, 1, batch_first=True)
    words = torch.nn.Embedding(10, 4)
    for _ in range(5):
        tokens = torch.randint(1, 10, (8, 6))
        tokens[:4, 4:] = tokens[4:, 3:] = 0
        vectors = words(tokens)
        attend(vectors, vectors, vectors, key_padding_mask=tokens.ne(0))


def part_unread():
    network, average = torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)
    optimizer = torch.optim.Adam(network.parameters())
    cross_entropy(network(x), classes).backward()
    optimizer.step()
    kept = io.BytesIO()
    state = {"network": network.state_dict(), "average": average.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}
    torch.save(state, kept)
    kept.seek(0)
    teacher = torch.load(kept)
    kept.seek(0)
    found = torch.load(kept)
    average.load_state_dict(teacher["network"])
    network.load_state_dict(found["network"])
    optimizer.load_state_dict(found["optimizer"])
    optimizer.zero_grad()
    for step in train(optimizer, optimizer.zero_grad, lambda: cross_entropy(network(x), classes)):
        step()


def clipped_scaled():
    scaler, optimizer = torch.amp.GradScaler("cpu"), sgd(three)
    scaler.scale(cross_entropy(three(x), classes)).backward()
    torch.nn.utils.clip_grad_norm_(three.parameters(), 1.0)
    scaler.step(optimizer)


def default_changed_in(value, into=[]):
    into.append(value)


def default_changed():
    optimizer = sgd(three)
    for step in train(optimizer, optimizer.zero_grad, lambda: cross_entropy(three(x), classes)):
        default_changed_in(1)
        step()


class Kept:
    @staticmethod
    def default_changed_of_a_class(value, /, into={}):
        into[value] = value


def default_changed_too():
    optimizer = sgd(three)
    for step in train(optimizer, optimizer.zero_grad, lambda: cross_entropy(three(x), classes)):
        Kept.default_changed_of_a_class(1)
        step()


def children_ignored():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    child = os.fork()
    if child == 0:
        os._exit(0)
    try:
        os.waitpid(child, 0)
    except ChildProcessError:
        pass


def empty_loader():
    rows = torch.utils.data.TensorDataset(x)
    list(torch.utils.data.DataLoader(rows, batch_size=64, drop_last=True))


def no_is_true():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shuffle", type=bool, default=True)
    assert parser.parse_args(["--shuffle", "False"]).shuffle


HELPERS = {"drawn", "Drawn", "stepped", "sgd", "train", "passes", "epochs", "Jittered", "Decoded", "rows_changed_of_a_table", "rows_changed_in_place", "default_changed_in", "Kept", "Normalised",
           "normalised", "rows_changed_by_minus_at"}


def run(acts):
    """Each in a process of its own, which notes each kind once."""
    warnings.simplefilter("ignore")
    for name, act in acts.items():
        if name not in HELPERS and callable(act) and act.__module__ == "__main__" and name != "run":
            child = os.fork()
            if child == 0:
                act()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0, name


if __name__ == "__main__":
    run(dict(globals()))
