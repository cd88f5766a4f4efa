"""The rows of a data set as token ids, made once."""
import csv
import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Rows:
    """Token ids of each row, special tokens included, and the classes."""

    ids: list
    classes: list

    def part(self, count):
        """The first rows."""
        return Rows(self.ids[:count], self.classes[:count])


def read(path, checkpoint, max_length):
    """Training and validation rows of a data set (columns text, status, part) for a checkpoint's tokeniser."""
    with open(path, newline="", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    encoded = tokenise(Path(checkpoint) / "tokenizer.json", [row["text"] for row in table], max_length)
    rows = {"train": Rows([], []), "validation": Rows([], [])}
    for row, ids in zip(table, encoded, strict=True):
        rows[row["part"]].ids.append(ids)
        rows[row["part"]].classes.append(int(row["status"]))
    return rows["train"], rows["validation"]


def tokenise(path, texts, max_length):
    """Token ids, cut at a length. A tokeniser of whole words needs no package."""
    definition = json.loads(path.read_text())
    if definition["model"]["type"] == "WordLevel":
        words = definition["model"]["vocab"]
        inner = max_length - 2
        return [[words["[CLS]"], *(words[w] for w in text.split()[:inner]), words["[SEP]"]] for text in texts]
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length)
    return [encoding.ids for encoding in tokenizer.encode_batch(texts)]
