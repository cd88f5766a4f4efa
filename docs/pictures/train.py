"""A small network that tells two half moons apart, in Python alone: the program of the pictures."""

import argparse
import json
import math
import os
import random

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.01)
parser.add_argument("--hidden", type=int, default=16)
parser.add_argument("--dropout", type=float, default=0.1)
parser.add_argument("--epochs", type=int, default=8)
args = parser.parse_args()

draw = random.Random(7)


def moons(count):
    for at in range(count):
        angle, label = draw.uniform(0, math.pi), at % 2
        x, y = (math.cos(angle), math.sin(angle)) if label else (1 - math.cos(angle), 0.4 - math.sin(angle))
        yield [x + draw.gauss(0, 0.22), y + draw.gauss(0, 0.22), 1.0], label


train, validation = list(moons(400)), list(moons(300))
first = [[draw.gauss(0, 1) for _ in range(3)] for _ in range(args.hidden)]
second = [draw.gauss(0, 0.3) for _ in range(args.hidden)]


def forward(x, kept):
    hidden = [math.tanh(sum(w * v for w, v in zip(row, x))) * keep for row, keep in zip(first, kept)]
    return hidden, 1 / (1 + math.exp(-sum(w * h for w, h in zip(second, hidden))))


def f1(rows):
    answers = [(forward(x, [1 - args.dropout] * args.hidden)[1] > 0.5, label) for x, label in rows]
    right = sum(a and label for a, label in answers)
    return 2 * right / max(1, sum(a for a, _ in answers) + sum(label for _, label in answers))


for epoch in range(1, args.epochs + 1):
    draw.shuffle(train)
    for x, label in train:
        kept = [float(draw.random() >= args.dropout) for _ in range(args.hidden)]
        hidden, p = forward(x, kept)
        for j, (w, h) in enumerate(zip(second, hidden)):
            slope = (p - label) * w * (1 - h * h) * kept[j]
            second[j] -= args.lr * (p - label) * h
            first[j] = [u - args.lr * slope * v for u, v in zip(first[j], x)]
    score = f1(validation)
    print(f"epoch {epoch}: val_f1={score:.4f}", flush=True)
    if "TUNE_METRICS_FD" in os.environ:
        fd = int(os.environ["TUNE_METRICS_FD"])
        os.write(fd, (json.dumps({"step": epoch, "val_f1": score}) + "\n").encode())
        if json.loads(os.read(fd, 4096))["prune"]:
            break
