"""Compares an exported directory with transformers: python check_export.py DIR FILE.csv ANSWERS.jsonl

ANSWERS is what `tune predict DIR FILE -o ANSWERS` has written. transformers loads DIR, answers the same
rows, and every probability must agree within 1e-4; so must the classes' names. Where head.json says that
transformers has no such head, only the encoder is loaded.
"""

import csv
import json
import math
import pathlib
import sys

import torch
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

LIMIT = 1e-4


def main(directory, rows_file, answers_file):
    torch.set_grad_enabled(False)
    head = json.loads((pathlib.Path(directory) / "head.json").read_text())
    tokenizer = AutoTokenizer.from_pretrained(directory)
    assert tokenizer.model_max_length == head["max_length"], tokenizer.model_max_length
    if head["transformers"] is None:
        _, loading = AutoModel.from_pretrained(directory, output_loading_info=True)
        missing = [key for key in loading["missing_keys"] if not key.startswith("pooler.")]
        assert not missing, missing
        print("no such head in transformers; the encoder is loaded whole")
        return
    model, loading = AutoModelForSequenceClassification.from_pretrained(
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
        pair = row[columns["text_pair"]] if columns["text_pair"] else None
        encoded = tokenizer(row[columns["text"]], pair, truncation=True, return_tensors="pt")
        logits = model(**encoded).logits[0].double()
        # A softmax does not tell logits that are all shifted: the differences are compared, too.
        found = [math.log(answer[f"probability.{label}"]) for label in labels]
        expected = logits.log_softmax(-1).tolist()
        worst = max([worst] + [abs(f - e) for f, e in zip(found, expected)])
    print(f"{len(rows)} rows, {head['transformers']}: largest difference of log probabilities {worst:.2e}")
    assert worst < LIMIT


if __name__ == "__main__":
    main(*sys.argv[1:])
