"""What only looks like a mistake of a training: doctor notes none of it. Each function is a program that is right."""

import argparse
import copy
import functools
import queue
import io
import os
import pickle
import random
import signal
import sys

import torch
from silent_errors import Drawn, drawn, passes, Decoded, Normalised, classes, epochs, heights, normalised, one, run, sgd, three, train, x
from torch.nn.functional import cross_entropy, mse_loss
from torch.utils.checkpoint import checkpoint


def stepped(*functions):
    """A training step through each of these: random numbers go on as without doctor, and nothing is set up on a card."""
    optimizer, card = sgd(three), torch.cuda.is_initialized()
    torch.manual_seed(3), random.seed(3)
    for function in functions:
        result = function.apply(three(x))
        result = result if isinstance(result, torch.Tensor) else result[0]
        result.sum().backward()
    optimizer.step()
    drawn = torch.rand(1).item(), random.random()
    torch.manual_seed(3), random.seed(3)
    assert drawn == (torch.rand(1).item(), random.random())
    assert torch.cuda.is_initialized() == card


def fine_checkpointing():
    class Normed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            root = x.square().mean(-1, keepdim=True).sqrt()
            ctx.save_for_backward(x, root)
            return x / root

        @staticmethod
        def backward(ctx, gradient):
            x, root = ctx.saved_tensors
            return gradient / root - x * (gradient * x).mean(-1, keepdim=True) / root**3

    layers = [torch.nn.Linear(4, 4) for _ in range(3)]
    optimizer = torch.optim.SGD([p for layer in layers for p in layer.parameters()], lr=0.1)
    for _ in range(4):
        hidden = x
        for layer in layers:
            hidden = checkpoint(lambda h, layer=layer: Normed.apply(layer(h)), hidden, use_reentrant=False)
        hidden.square().sum().backward()
        optimizer.step()


def fine_loading():
    assert pickle.loads(pickle.dumps(torch.load)) is torch.load
    network = torch.nn.Linear(4, 3)
    optimizer, kept = torch.optim.Adam(network.parameters()), io.BytesIO()
    cross_entropy(network(x), classes).backward()
    optimizer.step()
    torch.save({"network": network.state_dict(), "optimizer": optimizer.state_dict()}, kept)
    kept.seek(0)
    found = torch.load(kept)
    assert type(found) is dict
    # Fine-tuning takes the weights alone.
    network.load_state_dict(found["network"])
    optimizer = torch.optim.Adam(network.parameters())
    for step in train(optimizer, optimizer.zero_grad, lambda: cross_entropy(network(x), classes)):
        step()
    # An average that is written in place.
    target = torch.nn.Linear(4, 3)
    state = target.state_dict()
    for name, value in network.state_dict().items():
        state[name].mul_(0.9).add_(value, alpha=0.1)
    target.load_state_dict(state)


def fine_tables():
    import numpy

    class Calibrated(Decoded):
        def __getitem__(self, at):
            self.calibration = numpy.eye(3) * (at + 1)
            return self.rows[at]

    class Cached(Decoded):
        def __init__(self, change, rows):
            super().__init__(change, rows)
            self.cache = numpy.zeros((len(rows), 4))

        def __getitem__(self, at):
            self.cache[at] = self.rows[at].numpy()
            return self.rows[at]

    class Environments(torch.utils.data.IterableDataset):
        def __iter__(self):
            self.places = getattr(self, "places", [torch.zeros(4) for _ in range(9)])
            for place in self.places:
                yield place.add_(1.0).clone()

    normalised(None, Calibrated)
    normalised(None, Cached)
    environments = Environments()
    for _ in range(4):
        list(torch.utils.data.DataLoader(environments, batch_size=3))


def fine_tokens():
    words = torch.nn.Embedding(10, 4)
    for _ in range(5):
        tokens = torch.randint(2, 10, (8, 6))
        tokens[torch.arange(8), torch.randint(0, 6, (8,))] = 1
        # Read where the special token is.
        torch.rand(8, 6).masked_fill(tokens != 1, float("-inf")).softmax(1) @ words(tokens)
        (torch.randint(0, 16, (8, 6), dtype=torch.uint8) - 8).to(torch.int8)


def fine_files():
    os.makedirs("run")
    open("vocabulary.json", "w").close()
    os.remove("vocabulary.json"), os.rmdir("run")
    for name in ("run-2.json", "runs/vocabulary.json", "/vocabulary.json.gz"):
        try:
            open(os.path.abspath(name))
        except OSError as error:
            sys.excepthook(type(error), error, error.__traceback__)


def fine_own_steps():
    optimizer = sgd(three)
    for _ in range(20):
        optimizer.zero_grad()
        cross_entropy(three(x), classes).backward()
        with torch.no_grad():
            for parameter in three.parameters():
                parameter.data.sub_(0.1 * parameter.grad)


def fine_rows():
    class Filled(Decoded):
        def __getitem__(self, at):
            self.sums[0][0] += 1
            return super().__getitem__(at)


    def summed(data, row):
        for total in data.sums:
            total.add_(row)
        return row.clone().mul_(1.5)

    normalised(summed, Filled)

    def counts(data, row):
        data.seen = getattr(data, "seen", torch.zeros(4))
        data.seen[1].add_(1)
        torch.add(row, 1, out=data.room[1])
        return data.room[1].mul_(2).clone()

    normalised(counts)
    normalised(lambda data, row: row.clone().sub_(0.5))
    normalised(lambda data, row: data.room[0].copy_(row).sub_(0.5).clone())
    for _ in range(8):
        torch.ones(8, dtype=torch.bfloat16).lerp_(torch.full((8,), 1.5, dtype=torch.bfloat16), 0.5)
        torch.ones(8).lerp_(torch.full((8,), 1.5), 0.001)


def fine_scaling():
    scaler, optimizer = torch.amp.GradScaler("cpu"), sgd(three)
    for _ in range(10):
        scaler.scale(cross_entropy(three(x), classes)).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(three.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def fine_python():
    rows = torch.utils.data.TensorDataset(x)
    list(torch.utils.data.DataLoader(rows, batch_size=64)), list(torch.utils.data.DataLoader(rows, batch_size=4, drop_last=True))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    parser = argparse.ArgumentParser()
    parser.add_argument("--shuffle", type=bool, default=False)
    parser.add_argument("--name")
    parser.parse_args(["--shuffle", "True", "--name", "no"])
    words = [str(word) for word in range(100)]
    list(zip(words, words[1:]))
    list(zip(words, range(100)))
    list(zip("abc", range(100)))
    list(zip(words, iter(range(7))))
    list(enumerate(sorted({"ham", "spam"})))
    list(enumerate({1, 2, 3}))
    assert type(zip()).__name__ == "zip" and isinstance(enumerate([]), enumerate)
    torch.tensor([float(price) ** 3 for price in range(1000)])
    torch.tensor(list(range(1_700_000_000, 1_700_000_100)))
    for data, loader in passes(persistent_workers=True):
        list(loader)
    for data, loader in passes():
        data.jitter += 0.5
        list(loader)
    waiting = queue.Queue()
    for row in range(3):
        waiting.put(torch.full((4,), row))
    waiting.get().add_(1)
    with torch.no_grad():
        torch.nn.Dropout(0.5).eval()(x)


def fine_copies():
    average, other = torch.nn.Linear(4, 3).eval(), torch.nn.Linear(4, 5).eval()
    for _ in epochs(lambda: average.weight.lerp_(three.weight, 0.1)):
        with torch.no_grad():
            average(x), other(x)
    frozen, head = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
    network, optimizer = torch.nn.Sequential(frozen, head), sgd(head)
    for _ in range(5):
        network.train()
        for step in train(optimizer, optimizer.zero_grad, lambda: network(x).square().mean()):
            step()
        network.eval()
        with torch.no_grad():
            network(x)
    metric = torch.nn.Linear(4, 4).eval()
    body = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 3))
    optimizer = sgd(body)
    for _ in range(5):
        for step in train(optimizer, optimizer.zero_grad, lambda: cross_entropy(body(x), classes)):
            step()
        with torch.no_grad():
            metric(x)
    teacher, layer = torch.nn.Linear(4, 3).eval(), torch.nn.Linear(4, 3)
    optimizer = sgd(three)
    for step in train(optimizer, optimizer.zero_grad, lambda: cross_entropy(three(x), classes)):
        step()
        with torch.no_grad():
            teacher(x)
    for _ in range(12):
        hook = layer.register_forward_hook(lambda module, args, output: None)
        layer(x)
        hook.remove()
    torch.full((8,), 100, dtype=torch.uint8) + torch.full((8,), 100, dtype=torch.uint8)
    torch.full((8,), 200, dtype=torch.int64) + 100


def fine_modules():
    network = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.Dropout(0.1))
    average, optimizer = copy.deepcopy(network).eval(), sgd(network)
    for number, step in enumerate(train(optimizer, optimizer.zero_grad, lambda: cross_entropy(network(x), classes))):
        step()
        with torch.no_grad():
            for kept, trained in zip(average.state_dict().values(), network.state_dict().values()):
                kept.copy_(trained)
            average(x)
        # Statistics are kept on purpose.
        network[1].train(number < 4)
        network[2].train(number % 2 == 0)
    judge = torch.nn.Sequential(torch.nn.Linear(4, 1), torch.nn.Dropout(0.3))
    for optimizer in [sgd(judge), sgd(three)] * 6:
        judge.train(optimizer.param_groups[0]["params"][0] is judge[0].weight)
        judge(x).square().mean().backward()
        three(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    layer, last = torch.nn.GRU(4, 6), torch.nn.Linear(6, 3)
    rows, series, optimizer = torch.randn(8, 5, 4), torch.randn(9, 1, 4), sgd(layer)
    targets = torch.randint(3, (9,))
    for step in train(optimizer, optimizer.zero_grad, lambda: cross_entropy(last(layer(rows.transpose(0, 1))[0][-1]), targets[:8])):
        step()
    for step in train(optimizer, optimizer.zero_grad, lambda: cross_entropy(last(layer(series)[0][:, 0]), targets)):
        step()
    torch.save([torch.zeros(1000, 1000)[0].clone()], io.BytesIO())


def fine_evaluation():
    network = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.Dropout(0.1))
    network[1].weight.data.normal_(1.0, 0.1)
    optimizer = sgd(network)
    for _ in range(3):
        # Another network, which is evaluated before it is trained.
        copy.deepcopy(network).eval()(x)
        network.train()
        for step in train(optimizer, optimizer.zero_grad, lambda: cross_entropy(network(x), classes)):
            step()
        # Inputs that are changed to mislead it.
        network.eval()
        change = torch.zeros_like(x).requires_grad_()
        attack = torch.optim.SGD([change], lr=0.1)
        for step in train(attack, attack.zero_grad, lambda: -cross_entropy(network(x + change), classes)):
            step()
    average = torch.optim.swa_utils.AveragedModel(network)
    average.update_parameters(network)
    torch.optim.swa_utils.update_bn([x], average)
    average.eval()(x)
    network.train()
    torch.jit.trace(network.eval(), x)


def fine_sequences():
    words, sentences, last = torch.nn.GRU(4, 6), torch.nn.GRU(6, 6), torch.nn.Linear(6, 3)
    texts, optimizer = torch.utils.data.TensorDataset(torch.randn(12, 2, 3, 4), classes), sgd(words)
    for _ in range(4):
        # As many words as texts in a batch.
        for text, targets in torch.utils.data.DataLoader(texts, batch_size=3):
            optimizer.zero_grad()
            read = words(text.flatten(0, 1).transpose(0, 1))[0][-1].unflatten(0, (-1, 2))
            cross_entropy(last(sentences(read.transpose(0, 1))[0][-1]), targets).backward()
            optimizer.step()


def fine_generators():
    class Cached(Drawn):
        def __init__(self):
            super().__init__(0)
            self.secret = random.SystemRandom()
            self.epoch = torch.zeros((), dtype=torch.int64).share_memory_()

        @functools.lru_cache
        def __getitem__(self, row):
            self.draw.seed(int(self.epoch) * 8 + row)
            return super().__getitem__(row)

    data = Cached()
    for epoch in range(3):
        data.epoch.fill_(epoch)
        drawn(data, epochs=1)
    def seed(worker):
        torch.utils.data.get_worker_info().dataset.draw.seed(torch.initial_seed())

    drawn(Drawn(0), persistent_workers=True)
    drawn(Drawn(0), worker_init_fn=seed)


def fine_shapes():
    mse_loss(one(x), heights[:, None]).backward()
    mse_loss(one(x).squeeze(1), heights).backward()
    frequencies = torch.nn.Parameter(torch.ones(12))
    (heights[:, None] * frequencies).sin().sum().backward()
    distances = one(x) - one(x).T
    (distances.abs().mean() + cross_entropy(three(x).log_softmax(1), classes)).backward()


def fine_states():
    network = torch.nn.Linear(4, 3)
    best, optimizer = copy.deepcopy(network.state_dict()), sgd(network)
    for step in train(optimizer, optimizer.zero_grad, lambda: cross_entropy(network(x), classes)):
        step()
    network.load_state_dict(best)
    kept = io.BytesIO()
    torch.save({"network": network.state_dict(), "optimizer": optimizer.state_dict()}, kept)
    kept.seek(0)
    found = torch.load(kept)
    for name, part in found.items():
        {"network": network, "optimizer": optimizer}[name].load_state_dict(part)
    kept = io.BytesIO()
    torch.save(found, kept)
    assert b"_tune_doctor" not in kept.getvalue()
    for step in train(optimizer, optimizer.zero_grad, lambda: cross_entropy(network(x), classes)):
        step()


def fine_masks():
    attend, words = torch.nn.MultiheadAttention(4, 1, batch_first=True), torch.nn.Embedding(10, 4)
    for _ in range(5):
        tokens = torch.randint(1, 10, (6, 6))
        tokens[:, 4:] = 0
        vectors = words(tokens)
        causal = torch.nn.Transformer.generate_square_subsequent_mask(6)
        attend(vectors, vectors, vectors, key_padding_mask=tokens.eq(0))
        attend(vectors, vectors, vectors, attn_mask=causal)
        torch.nn.functional.scaled_dot_product_attention(vectors, vectors, vectors, attn_mask=tokens.ne(0)[:, None, :])


def fine_functions():
    class Swish(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x.sigmoid()

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            return gradient * (x.sigmoid() + x * x.sigmoid() * (1 - x.sigmoid()))

    class Rounded(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return (x * 4).round() / 4

        @staticmethod
        def backward(ctx, gradient):
            return gradient, None

    class Reversed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, gradient):
            return -gradient

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            scale = x.detach().abs().mean() / 8
            return (x / scale).round() * scale

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    class Clamped(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clamp(0, 1)

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    class Counted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            count = x.square().mean()
            ctx.mark_non_differentiable(count)
            return x * 2, count

        @staticmethod
        def backward(ctx, gradient, _):
            return gradient * 2

    class OfFloats(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            assert x.dtype == torch.float32
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            return -gradient

    stepped(Swish, Rounded, Reversed, OfFloats, Scaled, Clamped, Counted)


def fine_names():
    class Odd:
        def __getattr__(self, name):
            raise SystemExit(7)

    odd, names = Odd(), {"a": 1, "bb": 2, "data_root": 3}
    asked = [lambda: names["b"], lambda: names[1], lambda: os.environ["DATA_ROOT"], lambda: open("/none/none")]
    for ask in asked:
        try:
            ask()
        except (LookupError, OSError) as error:
            sys.excepthook(type(error), error, error.__traceback__)


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


if __name__ == "__main__":
    run(dict(globals()))
