"""The two spaces of cost.py, as `tune ask-tell` takes them, and a simple function to give them values."""
import math

from functions.base import choice, real, whole

# The space of benches/sampler.rs: ten parameters, all always active.
MIXED = [
    choice("opt", ["adam", "adamw", "sgd", "rmsprop"]),
    choice("act", ["relu", "gelu", "silu"]),
    real("lr", 1e-5, 0.1, log=True),
    real("wd", 1e-6, 0.1, log=True),
    real("dropout", 0.0, 0.6),
    real("label_smooth", 0.0, 0.3),
    {**real("mom", 0.5, 0.99), "step": 0.01},
    whole("layers", 1, 8),
    whole("width", 64, 1024, step=64),
    whole("batch", 16, 512, log=True),
]

# The space of tests/data/field-notes-space.toml without what the protocol has no words for: bounds that depend on the
# model, and the constraint.
CONDITIONAL = [
    choice("model.name", ["bert-base-uncased", "bert-large-uncased", "roberta-base", "roberta-large",
                          "microsoft/deberta-v3-base", "microsoft/deberta-v3-large", "xlm-roberta-base"]),
    choice("sched.name", ["linear", "cosine", "cosine_restart", "polynomial", "one_cycle"]),
    whole("sched.cosine_cycles", 1, 4, when=("sched.name", ["cosine_restart", "one_cycle"])),
    real("sched.poly_power", 0.5, 2.0, when=("sched.name", ["polynomial"])),
    whole("tok.max_length", 128, 512, step=32),
    choice("train.batch_size", [8, 12, 16, 24, 32, 48, 64]),
    choice("train.grad_accum", [1, 2, 3, 4, 6, 8]),
    real("optim.lr", 5e-6, 3e-4, log=True),
    real("optim.weight_decay", 1e-6, 0.2, log=True),
    real("optim.beta1", 0.80, 0.95),
    real("optim.beta2", 0.95, 0.9999),
    real("optim.eps", 1e-9, 1e-6, log=True),
    real("optim.layerwise_lr_decay", 0.8, 1.0),
    real("sched.warmup_ratio", 0.0, 0.2),
    real("train.clip_grad", 0.0, 1.5),
    choice("train.grad_checkpointing", [False, True]),
    whole("train.freeze_encoder_layers", 0, 6),
    real("model.dropout", 0.0, 0.5),
    real("model.attn_dropout", 0.0, 0.3),
    choice("head.pooling", ["cls", "mean", "max", "attn"]),
    whole("head.layers", 1, 4),
    choice("head.hidden", [256, 384, 512, 768, 1024, 1536, 2048]),
    choice("head.activation", ["gelu", "relu", "silu"]),
    real("head.dropout", 0.0, 0.5),
    choice("loss.cls.type", ["ce", "ce_label_smooth", "focal"]),
    real("loss.cls.label_smoothing", 0.0, 0.2, when=("loss.cls.type", ["ce", "ce_label_smooth"])),
    real("loss.cls.gamma", 1.0, 5.0, when=("loss.cls.type", ["focal"])),
    real("loss.cls.alpha", 0.1, 0.9, when=("loss.cls.type", ["focal"])),
    choice("loss.cls.balance", ["none", "weighted", "effective_num"]),
]  # fmt: skip


def unit(parameter, value):
    """Where a value lies in its domain, from 0 to 1; choices lie in the order given."""
    if parameter["type"] == "cat":
        return parameter["choices"].index(value) / max(1, len(parameter["choices"]) - 1)
    scale = math.log if parameter["log"] else float
    low, high = scale(parameter["low"]), scale(parameter["high"])
    return (scale(value) - low) / (high - low)


def value(space, params):
    """A bowl whose minimum lies elsewhere in each active parameter, on average over them; from 0 to 1."""
    wanted = {parameter["name"]: (0.3 + 0.37 * i) % 1 for i, parameter in enumerate(space)}
    active = [parameter for parameter in space if parameter["name"] in params]
    return sum((unit(p, params[p["name"]]) - wanted[p["name"]]) ** 2 for p in active) / len(active)
