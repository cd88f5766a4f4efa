"""Writes the history that docs/adopting.md shows: made up, after one that a group really had. 452 trials
of the old script's space; the values are those of a classifier that has learned nothing.

    history.py OLD.db        (Optuna 4.9)
"""
import random
import sys

import optuna
from optuna.trial import TrialState

SPACE = {
    "model.name": ["minilm", "bert-large-uncased"],
    "tok.max_length": (128, 512, 32),
    "train.batch_size": [8, 12, 16, 24, 32, 48, 64],
    "train.grad_accum": [1, 2, 3, 4, 6, 8],
    "optim.lr": (5e-6, 3e-4, "log"),
    "optim.weight_decay": (1e-6, 0.2, "log"),
    "optim.beta1": (0.80, 0.95),
    "optim.beta2": (0.95, 0.9999),
    "optim.eps": (1e-9, 1e-6, "log"),
    "sched.name": ["linear", "cosine", "cosine_restart", "polynomial", "one_cycle"],
    "sched.warmup_ratio": (0.0, 0.2),
    "train.clip_grad": (0.0, 1.5),
    "model.dropout": (0.0, 0.5),
    "model.attn_dropout": (0.0, 0.3),
    "train.grad_checkpointing": [False, True],
    "train.freeze_encoder_layers": (0, 6, 1),
    "optim.layerwise_lr_decay": (0.8, 1.0),
    "head.pooling": ["cls", "mean", "max", "attn"],
    "head.layers": (1, 4, 1),
    "head.hidden": [256, 384, 512, 768, 1024, 1536, 2048],
    "head.activation": ["gelu", "relu", "silu"],
    "head.dropout": (0.0, 0.5),
    "loss.cls.type": ["ce", "ce_label_smooth", "focal"],
    "loss.cls.balance": ["none", "weighted", "effective_num"],
    "seed": (0, 100000, 1),
}
ASSERT = "CUDA error: device-side assert triggered"
MEMORY = (
    "CUDA out of memory. Tried to allocate 16.00 MiB. GPU 0 has a total capacity of 23.56 GiB of which "
    "33.56 MiB is free. Of the allocated memory 21.13 GiB is allocated by PyTorch, and 1.41 GiB is "
    "reserved by PyTorch but unallocated."
)
TRIVIAL = 0.4272


def suggest(trial, name, domain):
    if isinstance(domain, list):
        return trial.suggest_categorical(name, domain)
    low, high, *more = domain
    if isinstance(low, int):
        return trial.suggest_int(name, low, high, step=more[0])
    return trial.suggest_float(name, low, high, log=bool(more))


def point(trial):
    chosen = {name: suggest(trial, name, domain) for name, domain in SPACE.items()}
    if chosen["sched.name"] in ("cosine_restart", "one_cycle"):
        trial.suggest_int("sched.cosine_cycles", 1, 4)
    if chosen["sched.name"] == "polynomial":
        trial.suggest_float("sched.poly_power", 0.5, 2.0)
    if chosen["loss.cls.type"] == "focal":
        trial.suggest_float("loss.cls.gamma", 1.0, 5.0)
        trial.suggest_float("loss.cls.alpha", 0.1, 0.9)
    else:
        trial.suggest_float("loss.cls.label_smoothing", 0.0, 0.2)


def main():
    chance = random.Random(0)
    study = optuna.create_study(
        study_name="criteria-max",
        storage="sqlite:///" + sys.argv[1],
        direction="maximize",
        sampler=optuna.samplers.RandomSampler(seed=0),
    )
    lost = [*range(166, 181), *range(268, 280)]
    short = chance.sample([n for n in range(2, 450) if n not in lost], 38)
    for number in range(452):
        trial = study.ask()
        point(trial)
        if number >= 450:  # the script was killed here
            continue
        if number in lost or number in short:
            kind = "AcceleratorError" if number in lost else "OutOfMemoryError"
            trial.set_user_attr("cuda_error", True)
            trial.set_user_attr("cuda_error_type", kind)
            trial.set_user_attr("cuda_error_msg", ASSERT if number in lost else MEMORY)
            study.tell(trial, state=TrialState.PRUNED)
        else:
            learned = chance.random() < 0.6
            study.tell(trial, round(chance.uniform(0.391, TRIVIAL), 5) if learned else TRIVIAL)


if __name__ == "__main__":
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    main()
