#!/usr/bin/env python3
"""Fine-tuning as the script did that tune replaces (see expert.py for how it is called).

Every row is padded to the longest length; each batch goes to the device by itself, where its labels are checked with
a synchronisation; each step waits for its loss; AdamW is not fused; each trial reads the model from the disk; on a GPU,
launches are blocking and floats have 32 bits.
"""
import functools
import json
import os
import sys

os.environ["CUDA_LAUNCH_BLOCKING"] = "1"

import data
import encoder
import torch
import torch.nn.functional as F
from expert import linear, tell
from torch.utils.data import DataLoader, TensorDataset


def padded(rows, length, pad):
    """Ids, mask and classes of all rows, at full length."""
    ids = torch.full((len(rows.ids), length), pad)
    mask = torch.zeros_like(ids, dtype=torch.bool)
    for row, tokens in enumerate(rows.ids):
        ids[row, : len(tokens)] = torch.tensor(tokens)
        mask[row, : len(tokens)] = True
    return TensorDataset(ids, mask, torch.tensor(rows.classes))


def train(model, rows, trial, device, report):
    """One trial; `rows` are those of training and of validation. `report` hears of each epoch's end."""
    model.freeze(trial["frozen"])
    parameters = [p for p in model.parameters() if p.requires_grad]
    more = {"foreach": False, "fused": False}
    adamw = torch.optim.AdamW(parameters, lr=trial["lr"], weight_decay=trial["weight_decay"], **more)
    training = DataLoader(rows[0], trial["batch_size"], shuffle=True)
    validation = DataLoader(rows[1], trial["batch_size"])
    schedule = linear(adamw, len(training) * trial["epochs"], trial["warmup_ratio"])
    for epoch in range(1, trial["epochs"] + 1):
        model.train()
        total = 0.0
        for batch in training:
            ids, mask, classes = (part.to(device) for part in batch)
            if classes.min().item() < 0 or classes.max().item() > 1:
                raise ValueError("label out of range")
            adamw.zero_grad()
            loss = F.cross_entropy(model(ids, mask), classes)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, trial["clip_grad"])
            adamw.step()
            schedule.step()
            total += loss.item()
        right = validate(model, validation, device)
        report(epoch=epoch, train_loss=total / len(training), accuracy=right / len(rows[1]))


@torch.no_grad()
def validate(model, batches, device):
    model.eval()
    right = 0
    for batch in batches:
        ids, mask, classes = (part.to(device) for part in batch)
        right += (model(ids, mask).argmax(1) == classes).sum().item()
    return right


def main():
    job = json.loads(sys.argv[1])
    torch.set_num_threads(job["threads"])
    device, checkpoint = job["device"], job["checkpoint"]
    pad = encoder.read_config(checkpoint).pad_token_id
    for number, trial in enumerate(job["trials"]):
        tell("trial_started", number=number)
        torch.manual_seed(trial.get("seed", 0))
        length = trial["max_length"]
        rows = [padded(part, length, pad) for part in data.read(job["data"], checkpoint, length)]
        model = encoder.load(checkpoint, 2, trial["dropout"]).to(device)
        train(model, rows, trial, device, functools.partial(tell, "epoch_finished"))
        tell("trial_finished", number=number)


if __name__ == "__main__":
    main()
