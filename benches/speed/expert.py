#!/usr/bin/env python3
"""Fine-tuning as somebody who knows PyTorch writes it: the loop that tune's is compared with.

    expert.py '{"checkpoint": ..., "data": ..., "device": "cpu", "threads": 1, "trials": [{...}]}'

Rows are tokenised once and stay on the device; batches hold rows of like length and are padded to their longest;
attention and AdamW are fused; 32-bit floats on the CPU, bfloat16 by autocast on a GPU; nothing in a step waits for the
device. One process trains all trials, each on a fresh copy of the weights that were read once.
"""
import copy
import json
import sys

import data
import encoder
import torch
import torch.nn.functional as F

# A bucket of so many batches is sorted by length, which is what transformers' LengthGroupedSampler does.
BATCHES_A_BUCKET = 50
# Tokens of a batch in validation, padding included.
SCORED_TOKENS = {"cpu": 2048, "cuda": 65536}


def tell(event, **fields):
    """One event a line; who reads it measures the time."""
    print(json.dumps({"event": event, **fields}), flush=True)


class Resident:
    """Rows on the device, padded to the longest; a batch takes as many columns as it needs."""

    def __init__(self, rows, pad, device):
        self.lengths = torch.tensor([len(ids) for ids in rows.ids])
        tensors = [torch.tensor(ids) for ids in rows.ids]
        self.ids = torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=pad).to(device)
        self.counts = self.lengths.to(device)
        self.classes = torch.tensor(rows.classes, device=device)
        self.columns = torch.arange(self.ids.shape[1], device=device)

    def upload(self, batches):
        """The numbers of all batches in one transfer, with the length of each."""
        flat = torch.cat(batches).to(self.ids.device, non_blocking=True)
        longest = [int(self.lengths[batch].max()) for batch in batches]
        return list(zip(flat.split([len(batch) for batch in batches]), longest, strict=True))

    def take(self, numbers, length):
        """Ids, mask and classes of a batch."""
        ids = self.ids[:, :length].index_select(0, numbers)
        mask = self.columns[:length] < self.counts.index_select(0, numbers)[:, None]
        return ids, mask, self.classes.index_select(0, numbers)


def grouped(lengths, size, generator):
    """An epoch's batches: shuffled, rows of like length together."""
    order = torch.randperm(len(lengths), generator=generator)
    sorted_buckets = [b[lengths[b].argsort(descending=True)] for b in order.split(size * BATCHES_A_BUCKET)]
    batches = [batch for bucket in sorted_buckets for batch in bucket.split(size)]
    return [batches[i] for i in torch.randperm(len(batches), generator=generator)]


def by_length(lengths, tokens):
    """Batches for validation: in the order of length, as many rows as fit."""
    batches, batch = [], []
    for row in lengths.argsort().tolist():
        if batch and (len(batch) + 1) * int(lengths[row]) > tokens:
            batches.append(torch.tensor(batch))
            batch = []
        batch.append(row)
    return [*batches, torch.tensor(batch)]


def optimizer(model, trial):
    """Fused AdamW; no decay on biases and norms."""
    trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    plain = [p for name, p in trained if name.endswith("bias") or "LayerNorm" in name]
    decayed = [p for name, p in trained if not (name.endswith("bias") or "LayerNorm" in name)]
    groups = [{"params": decayed, "weight_decay": trial["weight_decay"]}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=trial["lr"], fused=True)


def linear(optimizer, steps, warmup_ratio):
    """The linear schedule with warm-up."""
    warmup = int(steps * warmup_ratio)

    def factor(step):
        return (step + 1) / warmup if step < warmup else max(0.0, (steps - step) / max(1, steps - warmup))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


@torch.inference_mode()
def validate(model, rows, batches, precision):
    """The number of rows that are classified rightly."""
    model.eval()
    right = torch.zeros((), dtype=torch.long, device=rows.ids.device)
    for numbers, length in batches:
        ids, mask, classes = rows.take(numbers, length)
        with precision():
            logits = model(ids, mask)
        right += (logits.argmax(1) == classes).sum()
    return right.item() / len(rows.lengths)


def train(model, rows, trial, device):
    """One trial; `rows` are those of training and of validation."""
    training, validation = rows
    on_gpu = device.startswith("cuda")
    precision = lambda: torch.autocast("cuda", torch.bfloat16, enabled=on_gpu)  # noqa: E731
    model.freeze(trial["frozen"])
    parameters = [p for p in model.parameters() if p.requires_grad]
    adamw = optimizer(model, trial)
    size = trial["batch_size"]
    steps = -(-len(training.lengths) // size) * trial["epochs"]
    schedule = linear(adamw, steps, trial["warmup_ratio"])
    generator = torch.Generator().manual_seed(trial.get("seed", 0))
    scored = validation.upload(by_length(validation.lengths, SCORED_TOKENS["cuda" if on_gpu else "cpu"]))
    for epoch in range(1, trial["epochs"] + 1):
        model.train()
        losses = []
        for numbers, length in training.upload(grouped(training.lengths, size, generator)):
            ids, mask, classes = training.take(numbers, length)
            with precision():
                loss = F.cross_entropy(model(ids, mask), classes)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, trial["clip_grad"], foreach=True)
            adamw.step()
            schedule.step()
            adamw.zero_grad(set_to_none=True)
            losses.append(loss.detach())
        accuracy = validate(model, validation, scored, precision)
        tell("epoch_finished", epoch=epoch, train_loss=torch.stack(losses).mean().item(), accuracy=accuracy)


def main():
    job = json.loads(sys.argv[1])
    torch.set_num_threads(job["threads"])
    if job["device"] != "cpu":
        # For what autocast leaves in 32 bits.
        torch.set_float32_matmul_precision("high")
        # Its attention is planned anew for each shape of a batch, and batches have many lengths.
        torch.backends.cuda.enable_cudnn_sdp(False)
    device, checkpoint = job["device"], job["checkpoint"]
    make = encoder.load_transformers if job.get("transformers") else encoder.load
    pristine = make(checkpoint, 2, 0.0).to(device)
    pad = encoder.read_config(checkpoint).pad_token_id
    tokens = {}
    for number, trial in enumerate(job["trials"]):
        length = trial["max_length"]
        if length not in tokens:
            parts = data.read(job["data"], checkpoint, length)
            tokens[length] = [Resident(part, pad, device) for part in parts]
        tell("trial_started", number=number)
        torch.manual_seed(trial.get("seed", 0))
        model = copy.deepcopy(pristine)
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = trial["dropout"]
        train(model, tokens[length], trial, device)
        tell("trial_finished", number=number)


if __name__ == "__main__":
    main()
