"""Records the peak memory of real trainings: writes peaks.csv, from which the tests simulate a GPU.

    tests/memory/record.py --tune target/release/tune [--out tests/memory/peaks.csv] [--only PREFIX]

Each row is one training by tune's own text classification on the CPU, in a process of its own: one
epoch on texts longer than `max_length`, with a checkpoint of random weights of the shape that the row
names. The peak is the worker's resident high-water mark, as tune reports it. Rows that the file
has already are not measured again, so that a stopped run goes on. Nothing but tune and Python 3.8 is
needed; the largest training takes about 5 GiB.

The shapes are those of well-known encoders at half their width and vocabulary, to be trained at an
eighth of their batch: weights are a quarter, activations a sixteenth of the originals'.
"""

import argparse
import csv
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

# layers, hidden, heads, intermediate, vocabulary
SHAPES = {
    "tiny": (1, 32, 2, 64, 64),
    "bert-base": (12, 384, 12, 1536, 15261),
    "bert-large": (24, 512, 16, 2048, 15261),
    "roberta-base": (12, 384, 12, 1536, 25132),
    "roberta-large": (24, 512, 16, 2048, 25132),
    "deberta-v3-base": (12, 384, 12, 1536, 64050),
    "deberta-v3-large": (24, 512, 16, 2048, 64050),
    "xlm-roberta-base": (12, 384, 12, 1536, 125001),
}
WORDS = ["good", "bad", "fine", "poor", "great", "awful", "the", "phone", "screen", "is", "was", "it"]
FIELDS = ["model", "layers", "hidden", "heads", "intermediate", "vocabulary", "positions",
          "batch_size", "max_length", "frozen", "peak_mib"]


def grid():
    """What is recorded: model, batch size, longest row in tokens, frozen layers."""
    yield ("tiny", 1, 16, 0)
    models = [model for model in SHAPES if model != "tiny"]
    longest = {model: 384 if model.endswith("large") else 512 for model in models}
    # The two other large ones differ from bert-large in their tables alone; a row at their longest takes
    # minutes.
    for model in sorted(models, key=lambda model: model in ("roberta-large", "deberta-v3-large")):
        short = model in ("roberta-large", "deberta-v3-large")
        for batch in (1, 8):
            for length in (128,) if short else (128, longest[model]):
                yield from ((model, batch, length, frozen) for frozen in (0, 6))
        yield from ((model, 3, 256, frozen) for frozen in (0, 1, 6))
    for model in ("bert-base", "bert-large"):
        for batch, length in ((1, 256), (3, 128), (3, longest[model]), (8, 256)):
            yield from ((model, batch, length, frozen) for frozen in (0, 6))


def tensors(shape):
    """Names and shapes of a BERT encoder's tensors."""
    layers, h, _, wide, vocabulary = shape
    for table, rows in (("word", vocabulary), ("position", 512), ("token_type", 2)):
        yield (f"embeddings.{table}_embeddings.weight", (rows, h))
    yield from (("embeddings.LayerNorm.weight", (h,)), ("embeddings.LayerNorm.bias", (h,)))
    for layer in range(layers):
        at = f"encoder.layer.{layer}."
        for part, out, width in (
            ("attention.self.query", h, h), ("attention.self.key", h, h),
            ("attention.self.value", h, h), ("attention.output.dense", h, h),
            ("intermediate.dense", wide, h), ("output.dense", h, wide),
        ):
            yield (f"{at}{part}.weight", (out, width))
            yield (f"{at}{part}.bias", (out,))
        for part in ("attention.output.LayerNorm", "output.LayerNorm"):
            yield (f"{at}{part}.weight", (h,))
            yield (f"{at}{part}.bias", (h,))


def write_checkpoint(folder, shape):
    """A checkpoint of random weights; a block of them is repeated, which no memory notices."""
    folder.mkdir()
    layers, h, heads, wide, vocabulary = shape
    config = {
        "model_type": "bert", "vocab_size": vocabulary, "hidden_size": h, "num_hidden_layers": layers,
        "num_attention_heads": heads, "intermediate_size": wide, "hidden_act": "gelu",
        "max_position_embeddings": 512, "type_vocab_size": 2, "pad_token_id": 0,
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer()))
    generator = random.Random(0)
    block = struct.pack("<65536f", *(generator.gauss(0, 0.02) for _ in range(65536)))
    header, start = {}, 0
    for name, dims in tensors(shape):
        size = 4
        for dim in dims:
            size *= dim
        header[name] = {"dtype": "F32", "shape": list(dims), "data_offsets": [start, start + size]}
        start += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _ in range(start // len(block)):
            file.write(block)
        file.write(block[: start % len(block)])


def tokenizer():
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    token = lambda word, number: {"id": word, "ids": [number], "tokens": [word]}
    piece = lambda word: {"SpecialToken": {"id": word, "type_id": 0}}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"}, "decoder": None,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [piece("[CLS]"), {"Sequence": {"id": "A", "type_id": 0}}, piece("[SEP]")],
            "pair": [piece("[CLS]"), {"Sequence": {"id": "A", "type_id": 0}}, piece("[SEP]"),
                     {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"[CLS]": token("[CLS]", 2), "[SEP]": token("[SEP]", 3)},
        },
        "model": {"type": "WordLevel", "unk_token": "[UNK]",
                  "vocab": {word: i for i, word in enumerate(special + WORDS)}},
    }


def write_rows(path, batch):
    """Rows of 600 tokens each, so that all are cut: two full batches and two rows to validate on."""
    generator = random.Random(1)
    with open(path, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["text", "status"])
        for i in range(2 * batch + 2):
            rows.writerow([" ".join(generator.choice(WORDS) for _ in range(600)), i % 2])


def measure(tune, folder, checkpoint, model, batch, length, frozen):
    """Trains once and gives the peak in MiB."""
    (folder / "configs").mkdir(exist_ok=True)
    write_rows(folder / "rows.csv", batch)
    train = batch / (batch + 1)
    (folder / "configs" / "peak.toml").write_text(f"""
[task]
kind = "text-classification"
[data]
path = "../rows.csv"
label = "status"
split = {{ train = {train}, validation = {1 - train}, test = 0.0 }}
[objective]
metric = "loss"
[train]
epochs = 1
batch_size = {batch}
freeze_encoder_layers = {frozen}
[tok]
max_length = {length}
[model]
name = "{model}"
[models]
"{model}" = "{checkpoint}"
[space]
"optim.lr" = {{ low = 1e-6, high = 1e-5 }}
""")
    study = f"{model}-{batch}-{length}-{frozen}"
    base = [tune, "-C", str(folder)]
    run = [*base, "peak", "--study", study, "--trials", "1", "--parallel", "1", "--device", "cpu", "--quiet"]
    # Two threads everywhere: what libraries keep for each thread counts too.
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    subprocess.run(run, check=True, env=environment, stdout=subprocess.DEVNULL)
    told = subprocess.run([*base, "trials", study, "--json"], check=True, env=environment,
                          stdout=subprocess.PIPE)
    (trial,) = json.loads(told.stdout)
    return trial["attrs"]["peak_memory_mb"]


def main():
    here = Path(__file__).resolve().parent
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--tune", required=True, help="the binary, built with libtorch")
    arguments.add_argument("--out", type=Path, default=here / "peaks.csv")
    arguments.add_argument("--only", default="", help="models whose name begins so")
    options = arguments.parse_args()
    done = set()
    if options.out.exists():
        with open(options.out, newline="") as file:
            done = {(r["model"], int(r["batch_size"]), int(r["max_length"]), int(r["frozen"]))
                    for r in csv.DictReader(file)}
    else:
        options.out.write_text(",".join(FIELDS) + "\n")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for point in grid():
            model, batch, length, frozen = point
            if point in done or not model.startswith(options.only):
                continue
            checkpoint = folder / model
            if not checkpoint.exists():
                write_checkpoint(checkpoint, SHAPES[model])
            peak = measure(options.tune, folder, checkpoint, *point)
            row = [model, *SHAPES[model], 512, batch, length, frozen, f"{peak:.1f}"]
            with open(options.out, "a", newline="") as file:
                csv.writer(file, lineterminator="\n").writerow(row)
            print(*row, file=sys.stderr)


if __name__ == "__main__":
    main()
