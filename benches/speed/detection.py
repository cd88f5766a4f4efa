#!/usr/bin/env python3
"""Training of a text detector by tune and by an expert's PyTorch loop: pages a second, as ratios within one run.

    detection.py --tune ./target/release/tune --maps ./target/release/examples/maps [--pages FILE] [--python PYTHON]

Both train the same network with the same losses on the same pages, one thread each, in turns. The expert's pages lie in
memory, decoded and with their maps; tune decodes, turns and scales its own and draws their maps while it trains, in threads
of their own, and after each epoch searches the parameters after training. Needs safetensors beside PyTorch.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from contest import Failed, follow, thread_pools

HERE = Path(__file__).resolve().parent
SIZE, BATCH, EPOCHS = 320, 8, 3
NETWORK = ("resnet18", 0.25, 64)


def expert(maps, parts):
    """Reads what `maps` has written, whose first pages are for training, and trains on them."""
    import numpy as np
    import torch
    from torch.nn import functional as F

    sys.path.insert(0, str(HERE.parent.parent / "tests" / "reference"))
    from make_detection import DbNet

    def tell(event, **more):
        print(json.dumps({"event": event, **more}), flush=True)

    torch.set_num_threads(1)
    torch.manual_seed(0)
    pictures = torch.from_numpy(np.fromfile(maps / "pictures", np.uint8)).view(-1, SIZE, SIZE, 3)
    labels = torch.from_numpy(np.fromfile(maps / "labels", np.float32)).view(-1, 4, SIZE, SIZE)
    model = DbNet(*NETWORK).to(memory_format=torch.channels_last)
    adamw = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.01, fused=True)

    def loss(logits, thresholds, batch):
        # make_detection has the same for a comparison of values: with a sort of all pixels, and the focal loss beside.
        truth, mask, border, border_mask = batch.unbind(1)
        p, t = logits.sigmoid(), thresholds.sigmoid()
        each = F.binary_cross_entropy_with_logits(logits, truth, reduction="none")
        inside = truth * mask
        outside = mask - inside
        texts, others = int(inside.sum()), int(outside.sum())
        count = min(max(3 * texts, others // 1000), others)
        worst = (each * outside).flatten().topk(count, sorted=False).values
        balanced = ((each * inside).sum() + worst.sum()) / (texts + count + 1e-6)
        distance = ((t - border).abs() * border_mask).sum() / (border_mask.sum() + 1e-6)
        binary = (50 * (p - t)).sigmoid() * mask
        dice = 1 - 2 * (binary * inside).sum() / (binary.sum() + inside.sum() + 1e-6)
        return 5 * balanced + 10 * distance + dice

    tell("trial_started")
    for _ in range(EPOCHS):
        model.train()
        losses = []
        for rows in torch.randperm(parts[0]).split(BATCH):
            logits, thresholds = (m.squeeze(1) for m in model(pictures[rows]))
            value = loss(logits, thresholds, labels[rows])
            value.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
            adamw.step()
            adamw.zero_grad(set_to_none=True)
            losses.append(value.detach())
        model.eval()
        with torch.inference_mode():
            for rows in torch.arange(parts[0], sum(parts)).split(BATCH):
                model(pictures[rows])[0].sigmoid()
        tell("epoch_finished", train_loss=torch.stack(losses).mean().item())
    tell("trial_finished")


def project(pages):
    """The shipped configuration's network, all at its defaults."""
    backbone, width, fpn_width = NETWORK
    return f"""task = {{ kind = "text-detection" }}
data = {{ path = {json.dumps(str(pages))}, split = {{ column = "part" }} }}
objective = {{ metric = "hmean" }}
input = {{ size = {SIZE} }}
train = {{ epochs = {EPOCHS}, patience = 0, batch_size = {BATCH} }}
model = {{ backbone = "{backbone}", width = {width}, fpn_width = {fpn_width} }}
post = {{ threshold = [0.2, 0.3, 0.4], box_threshold = [0.3, 0.4, 0.5, 0.6], unclip = [1.2, 1.5, 1.8, 2.1] }}
[space]
"optim.lr" = {{ choices = [5e-3] }}
"""


def subset(pages, folder, parts):
    """So many pages for training and for validation, in this order, with their pictures' whole paths."""
    lines = [json.loads(line) for line in pages.read_text().splitlines()]
    chosen = []
    for part, count in zip(("train", "validation"), parts):
        chosen += [line for line in lines if line["part"] == part][:count]
    file = folder / "pages.jsonl"
    for line in chosen:
        line["image"] = str(pages.parent / line["image"])
    file.write_text("".join(json.dumps(line) + "\n" for line in chosen))
    return file


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tune", type=Path, required=True, help="the program")
    parser.add_argument("--maps", type=Path, required=True, help="tune-detection's example of this name")
    parser.add_argument("--pages", type=Path, default=Path.home() / ".cache/tune/detection/pages.jsonl")
    parser.add_argument("--parts", type=int, nargs=2, default=[160, 16], help="pages to train on, and to validate on")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python", default=sys.executable, help="an interpreter with PyTorch")
    parser.add_argument("--expert", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.expert:
        return expert(options.expert, options.parts)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pages = subset(options.pages, folder, options.parts)
        subprocess.run([options.maps, pages, folder / "maps", str(SIZE)], check=True)
        (folder / "configs").mkdir()
        (folder / "configs" / "speed.toml").write_text(project(pages))
        same = ["--tune", options.tune, "--maps", options.maps, "--parts", *map(str, options.parts)]
        commands = {
            "expert": [options.python, "-B", __file__, *same, "--expert", folder / "maps"],
            "tune": [options.tune.resolve(), "-C", folder, "speed", "--trials", "1", "--json", "--device", "cpu",
                     "--set", "run.threads=1", "--sampler", "random", "--pruner", "none"],
        }  # fmt: skip
        print("| program | pages a second | training thread sleeps | loss of each epoch |\n|---|---|---|---|")
        for turn in range(options.rounds):
            # A study for each round: one that has ended would not train again.
            studies = {"expert": [], "tune": ["--study", f"round-{turn}"]}
            for who, command in commands.items():
                _, [trial] = follow([*map(str, command), *studies[who]], thread_pools(1))
                spent = trial.epochs[-1].since(trial.epochs[0])
                rate = (EPOCHS - 1) * options.parts[0] / spent.wall
                losses = ", ".join(f"{loss:.3f}" for loss in trial.losses)
                print(f"| {who} | {rate:.2f} | {1 - spent.busiest / spent.wall:.1%} | {losses} |", flush=True)


if __name__ == "__main__":
    try:
        main()
    except Failed as error:
        sys.exit(f"FAILED: {error}")
