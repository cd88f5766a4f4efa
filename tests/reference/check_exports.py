"""Compares exports with transformers: python check_exports.py TUNE

TUNE is the program. For every architecture and several heads: a small random checkpoint is written by
transformers, a study of one trial is searched on it, its winner is exported, and transformers answers the
rows of the study with it. Every log probability must agree with `tune predict` within 1e-4, where head.json
says that transformers has such a head; otherwise the encoder must be loaded whole. Needs torch and
transformers, so it is no part of `make test`.
"""

import csv
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

LIMIT = 1e-4
HIDDEN = 32
WORDS = "good bad fine poor great awful the phone screen is was it one two three four".split()
SPECIAL = ["<pad>", "<unk>", "<s>", "</s>"]

SHAPE = dict(
    vocab_size=len(WORDS) + len(SPECIAL),
    hidden_size=HIDDEN,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=48,
    max_position_embeddings=64,
    initializer_range=0.3,
    pad_token_id=0,
)

ARCHITECTURES = {
    "bert": (transformers.BertConfig, transformers.BertModel, {}),
    "roberta": (transformers.RobertaConfig, transformers.RobertaModel, {}),
    "xlm-roberta": (transformers.XLMRobertaConfig, transformers.XLMRobertaModel, {}),
    "camembert": (transformers.CamembertConfig, transformers.CamembertModel, {}),
    "electra": (transformers.ElectraConfig, transformers.ElectraModel, {"embedding_size": 16}),
    "deberta-v2": (
        transformers.DebertaV2Config,
        transformers.DebertaV2Model,
        {
            "relative_attention": True,
            "position_buckets": 8,
            "pos_att_type": ["c2p", "p2c"],
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
            "position_biased_input": False,
        },
    ),
}

# Name, keys, and the architectures whose class in transformers computes it.
DEEP = {"head.pooling": "cls", "head.layers": 2, "head.hidden": HIDDEN}
TANH = {"bert", "roberta", "xlm-roberta", "camembert"}
HEADS = [
    ("one layer", {"head.pooling": "cls"}, set(ARCHITECTURES)),
    ("tanh", {**DEEP, "head.activation": "tanh"}, TANH | {"deberta-v2"}),
    ("gelu", {**DEEP, "head.activation": "gelu"}, {"electra", "deberta-v2"}),
    ("mean", {"head.pooling": "mean"}, set()),
]

CONFIG = """
[task]
kind = "text-classification"
[data]
path = "rows.csv"
text_pair = "pair"
label = "status"
[train]
epochs = 8
[models]
m = "../model"
[model]
name = "m"
[tok]
max_length = 24
[space]
"optim.lr" = { low = 1e-4, high = 1e-2, log = true, default = 1e-2 }
"""


def write_checkpoint(name, directory):
    torch.manual_seed(1)
    config, model, extra = ARCHITECTURES[name]
    model(config(**SHAPE, **extra)).save_pretrained(directory)
    vocab = {word: i for i, word in enumerate(SPECIAL + WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    kind = 1 if name in ("bert", "electra") else 0
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair=f"<s> $A </s> $B:{kind} </s>:{kind}",
        special_tokens=[("<s>", 2), ("</s>", 3)],
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token"), SPECIAL))
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)
    fast.save_pretrained(directory)


def write_rows(path):
    generator = random.Random(5)
    with open(path, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["text", "pair", "status"])
        for i in range(90):
            words = [generator.choice(WORDS[6:]) for _ in range(4 + i % 28)]
            words[1] = WORDS[(i % 3 == 0) + 2 * generator.randrange(3)]
            rows.writerow([" ".join(words), f"{generator.choice(WORDS)} it", int(i % 3 == 0)])


def compare(directory, rows_file, answers_file):
    """The largest difference of log probabilities; None where transformers has no such head."""
    head = json.loads((directory / "head.json").read_text())
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    assert tokenizer.model_max_length == head["max_length"], tokenizer.model_max_length
    if head["transformers"] is None:
        _, loading = transformers.AutoModel.from_pretrained(directory, output_loading_info=True)
        missing = [key for key in loading["missing_keys"] if "pooler." not in key]
        assert not missing, missing
        return None
    model, loading = transformers.AutoModelForSequenceClassification.from_pretrained(
        directory, output_loading_info=True
    )
    assert not loading["missing_keys"], loading["missing_keys"]
    assert not loading["unexpected_keys"], loading["unexpected_keys"]
    assert type(model).__name__ == head["transformers"], type(model)
    model.eval()
    labels = [model.config.id2label[i] for i in range(model.config.num_labels)]
    assert labels == head["labels"], labels
    columns = head["columns"]
    with open(rows_file, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    answers = [json.loads(line) for line in open(answers_file, encoding="utf-8")]
    assert len(rows) == len(answers) > 0
    worst = 0.0
    for row, answer in zip(rows, answers):
        texts = [row[columns[c]] for c in ("text", "text_pair") if columns[c]]
        encoded = tokenizer(*texts, truncation=True, return_tensors="pt")
        if model.config.type_vocab_size < 2:
            encoded.pop("token_type_ids", None)
        expected = model(**encoded).logits[0].double().log_softmax(-1).tolist()
        found = [math.log(answer[f"probability.{label}"]) for label in labels]
        worst = max([worst] + [abs(f - e) for f, e in zip(found, expected)])
    return worst


def main(tune):
    torch.set_grad_enabled(False)
    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as place:
        for name in ARCHITECTURES:
            project = pathlib.Path(place) / name
            (project / "configs").mkdir(parents=True)
            write_checkpoint(name, project / "model")
            write_rows(project / "configs/rows.csv")
            (project / "configs/task.toml").write_text(CONFIG)

            def run(*args):
                subprocess.run([tune, "-C", project, *args, "--quiet"], check=True)

            for head, keys, known in HEADS:
                study = head.replace(" ", "-")
                out, answers = project / study, project / f"{study}.jsonl"
                rows = project / "configs/rows.csv"
                sets = [f"--set={key}={value}" for key, value in keys.items()]
                run("task", "--study", study, "--trials", "1", "--device", "cpu", *sets)
                run("export", study, "-o", out)
                run("predict", out, rows, "-o", answers, "--device", "cpu")
                worst = compare(out, rows, answers)
                assert (worst is not None) == (name in known), (name, head, worst)
                told = "encoder only" if worst is None else f"{worst:.1e}"
                print(f"{name:12} {head:10} {told}", flush=True)
                assert worst is None or worst < LIMIT, (name, head, worst)


if __name__ == "__main__":
    main(*sys.argv[1:])
