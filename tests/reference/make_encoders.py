"""Writes small random checkpoints of every encoder and what transformers answers for them.

    python3 -m venv /tmp/venv-ref
    /tmp/venv-ref/bin/pip install 'transformers==4.57.6' 'torch==2.11.0'
    /tmp/venv-ref/bin/python tests/reference/make_encoders.py tests/reference/encoders

With `--random N --seed S` N random shapes of each architecture are written instead, larger ones and
with the gradients of all weights, to be compared once (the ignored test reads them from
TUNE_ENCODERS).

Each checkpoint is a folder: config.json and model.safetensors as `save_pretrained` writes them (the
weights are numbers of 16 bits, computed with in 32), and reference.safetensors: for the inputs `long`
(padded, with an id of padding inside a text) and `short` (not padded) ids, mask, types where there are
any, `last_hidden_state` and `pooler_output`; for `long` the gradients of a loss, the sum of the third
powers of all values at tokens, divided by their number, and of the pooled values likewise.
"""

import argparse
import copy
import os
import random

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification

SIZES = dict(
    vocab_size=50,
    hidden_size=32,
    num_hidden_layers=3,
    num_attention_heads=4,
    intermediate_size=40,
    max_position_embeddings=44,
)
DEBERTA = dict(
    relative_attention=True,
    position_biased_input=False,
    type_vocab_size=0,
    pos_att_type="p2c|c2p",
    norm_rel_ebd="layer_norm",
    share_att_key=True,
    position_buckets=8,
    max_position_embeddings=20,
)
# Name: model_type, with a head (which gives a prefix), tokens of the longest row, keys.
KEPT = {
    "bert": ("bert", False, 40, dict(type_vocab_size=2)),
    "bert-head": ("bert", True, 44, dict(hidden_act="gelu_new", layer_norm_eps=1e-5, pad_token_id=3)),
    "roberta": ("roberta", False, 42, dict(type_vocab_size=1, layer_norm_eps=1e-5)),
    "roberta-head": ("roberta", True, 30, dict(type_vocab_size=2, hidden_act="silu", pad_token_id=5)),
    "xlm-roberta": ("xlm-roberta", False, 42, dict(type_vocab_size=1, layer_norm_eps=1e-5)),
    "camembert": ("camembert", False, 20, dict(type_vocab_size=1)),
    "electra": ("electra", True, 40, dict(embedding_size=16)),
    "electra-wide": ("electra", False, 40, dict(embedding_size=32, hidden_act="relu")),
    "deberta-v3": ("deberta-v2", False, 48, DEBERTA),
    "deberta-v3-head": ("deberta-v2", True, 33, DEBERTA | dict(position_buckets=5, norm_rel_ebd="none")),
    "deberta-own-layers": (
        "deberta-v2",
        False,
        40,
        DEBERTA
        | dict(
            share_att_key=False,
            position_buckets=-1,
            max_relative_positions=12,
            position_biased_input=True,
            max_position_embeddings=40,
            type_vocab_size=2,
        ),
    ),
    "deberta-c2p": (
        "deberta-v2",
        False,
        30,
        DEBERTA | dict(share_att_key=False, pos_att_type=["c2p"], embedding_size=16),
    ),
    "deberta-p2c": ("deberta-v2", False, 30, DEBERTA | dict(pos_att_type=["p2c"], hidden_act="gelu_fast")),
    "deberta-convolution": (
        "deberta-v2",
        False,
        40,
        DEBERTA | dict(conv_kernel_size=3, conv_groups=2, conv_act="gelu"),
    ),
    "deberta-without-positions": (
        "deberta-v2",
        False,
        20,
        dict(relative_attention=False, position_biased_input=True, max_position_embeddings=20),
    ),
}
# Gradients that are kept: of what is special, and a sample of what all have.
GRADIENTS = (
    "embeddings.",
    "embeddings_project",
    "encoder.rel_embeddings",
    "encoder.LayerNorm",
    "encoder.conv",
    "encoder.layer.0.attention.self.query",
    "encoder.layer.1.attention.self.pos_",
    "encoder.layer.1.attention.self.key_proj.weight",
    "encoder.layer.1.attention.self.value",
    "encoder.layer.2.output.LayerNorm",
)


def randomise(model, deviation):
    """Every weight away from where it is initialised: biases, norms and the row of padding too."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.normal_(0, deviation)
            if "LayerNorm.weight" in name:
                weight.add_(1)
            weight.copy_(weight.half().float())


def inputs(config, rows, length, padded, generator):
    pad = config.pad_token_id
    ids = torch.randint(0, config.vocab_size, (rows, length), generator=generator)
    ids[ids == pad] = (pad + 1) % config.vocab_size
    mask = torch.ones_like(ids)
    if padded:
        for row, short in zip(range(1, rows), (length // 2, 1, length - 1)):
            mask[row, short:] = 0
        ids[mask == 0] = pad
        ids[0, length // 3] = pad
    made = {"input_ids": ids, "attention_mask": mask}
    if config.type_vocab_size > 1:
        made["token_type_ids"] = torch.randint(0, config.type_vocab_size, ids.shape, generator=generator) * mask
    return made


def write(folder, kind, head, length, keys, seed, deviation=0.3, every_gradient=False):
    torch.manual_seed(seed)
    config = AutoConfig.for_model(kind, **keys)
    auto = AutoModelForSequenceClassification if head else AutoModel
    whole = auto.from_config(config).float().eval()
    randomise(whole, deviation)
    os.makedirs(folder, exist_ok=True)
    copy.deepcopy(whole).half().save_pretrained(folder)
    model = whole.base_model
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for case, rows, tokens, padded in (("short", 2, 6, False), ("long", 3, length, True)):
        batch = inputs(config, rows, min(tokens, length), padded, generator)
        answer = model(**batch)
        last, pooled = answer.last_hidden_state, answer.get("pooler_output")
        tensors[f"{case}.ids"] = batch["input_ids"].int()
        tensors[f"{case}.mask"] = batch["attention_mask"].int()
        if "token_type_ids" in batch:
            tensors[f"{case}.types"] = batch["token_type_ids"].int()
        tensors[f"{case}.last"] = last.detach().contiguous()
        if pooled is not None:
            tensors[f"{case}.pooled"] = pooled.detach().contiguous()
        if case == "long":
            inside = last[batch["attention_mask"].bool()]
            loss = (inside**3).mean()
            if pooled is not None:
                loss = loss + (pooled**3).mean()
            loss.backward()
    for name, weight in model.named_parameters():
        if weight.grad is not None and (every_gradient or name.startswith(GRADIENTS)):
            tensors[f"grad.{name}"] = weight.grad.contiguous()
    about = {"transformers": transformers.__version__, "torch": torch.__version__}
    save_file(tensors, os.path.join(folder, "reference.safetensors"), metadata=about)


def random_shape(kind, rng):
    heads = rng.choice([1, 2, 3, 4, 6, 8])
    hidden = heads * rng.choice([4, 8, 10, 16, 32])
    length = rng.choice([17, 33, 64, 100, 150, 300])
    keys = dict(
        vocab_size=rng.choice([30, 101, 500]),
        hidden_size=hidden,
        num_hidden_layers=rng.choice([1, 2, 4, 6]),
        num_attention_heads=heads,
        intermediate_size=rng.choice([16, 50, 128]),
        max_position_embeddings=length + rng.choice([8, 20]),
        hidden_act=rng.choice(
            ["gelu", "gelu", "gelu_new", "relu", "silu", "swish", "tanh", "gelu_fast", "gelu_python"]
            + ["gelu_pytorch_tanh", "gelu_10", "quick_gelu", "relu2", "relu6", "leaky_relu", "mish"]
            + ["sigmoid", "linear", "laplace", "gelu_accurate"]
        ),
        layer_norm_eps=rng.choice([1e-12, 1e-7, 1e-5, 1e-3]),
        type_vocab_size=rng.choice([1, 2, 3]),
    )
    if kind == "electra":
        keys["embedding_size"] = rng.choice([hidden, 8, 24])
    if kind == "deberta-v2":
        keys |= dict(
            relative_attention=rng.random() < 0.9,
            type_vocab_size=rng.choice([0, 0, 1, 2]),
            position_buckets=rng.choice([-1, 2, 5, 8, 16, 32, 256]),
            max_relative_positions=rng.choice([-1, -1, 20, 512]),
            position_biased_input=rng.random() < 0.4,
            pos_att_type=rng.choice(["p2c|c2p", "c2p|p2c", ["p2c", "c2p"], ["c2p"], ["p2c"], None]),
            norm_rel_ebd=rng.choice(["layer_norm", "none"]),
            share_att_key=rng.random() < 0.6,
        )
        if rng.random() < 0.3:
            keys |= dict(conv_kernel_size=rng.choice([1, 3, 5]), conv_act=rng.choice(["tanh", "gelu"]))
        if rng.random() < 0.3:
            keys["embedding_size"] = rng.choice([8, 24])
    return rng.random() < 0.5, length, keys, rng.choice([0.1, 0.2, 0.3, 0.5])


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("out")
    arguments.add_argument("--random", type=int, default=0)
    arguments.add_argument("--seed", type=int, default=0)
    asked = arguments.parse_args()
    if asked.random == 0:
        for seed, (name, (kind, head, length, keys)) in enumerate(KEPT.items()):
            write(os.path.join(asked.out, name), kind, head, length, SIZES | keys, seed)
        return
    rng = random.Random(asked.seed)
    for kind in ("bert", "roberta", "xlm-roberta", "camembert", "electra", "deberta-v2"):
        for i in range(asked.random):
            head, length, keys, deviation = random_shape(kind, rng)
            folder = os.path.join(asked.out, f"{kind}-{asked.seed}-{i}")
            write(folder, kind, head, length, keys, rng.randrange(1 << 30), deviation, True)


if __name__ == "__main__":
    main()
