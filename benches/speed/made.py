"""Checkpoints with random weights and texts to go with them, made with PyTorch alone, without a network."""
import ctypes
import json
import math
import random
import struct
from types import SimpleNamespace

import torch
from encoder import architecture

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
BASE = {
    "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
    "hidden_act": "gelu", "max_position_embeddings": 512, "pad_token_id": 0, "initializer_range": 0.02,
    "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1,
}  # fmt: skip
CONFIGS = {
    "bert-base": {**BASE, "model_type": "bert", "vocab_size": 30522, "type_vocab_size": 2, "layer_norm_eps": 1e-12},
    "deberta-v3-base": {
        **BASE, "model_type": "deberta-v2", "vocab_size": 128100, "type_vocab_size": 0, "layer_norm_eps": 1e-7,
        "relative_attention": True, "position_buckets": 256, "max_relative_positions": -1, "share_att_key": True,
        "norm_rel_ebd": "layer_norm", "pos_att_type": "p2c|c2p", "position_biased_input": False,
    },
}  # fmt: skip
SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}


def checkpoint(name, folder):
    """A checkpoint of these sizes; NAME-small is one for trying things out."""
    config = dict(CONFIGS[name.removesuffix("-small")])
    if name.endswith("-small"):
        config.update(SMALL, vocab_size=1000)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(words(config["vocab_size"])))
    torch.manual_seed(0)
    encoder = architecture(SimpleNamespace(**config))(SimpleNamespace(**config), 0.0)
    for parameter in (p for p in encoder.parameters() if p.dim() > 1):
        torch.nn.init.normal_(parameter, std=0.02)
    write_tensors(encoder.state_dict(), folder / "model.safetensors")


def words(size):
    """A tokeniser to which each word is a token, in the format of `tokenizers`."""
    known = {word: number for number, word in enumerate([*SPECIAL, *(f"w{n}" for n in range(len(SPECIAL), size))])}
    added = [
        {"id": known[word], "content": word, "special": True, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False}
        for word in SPECIAL
    ]  # fmt: skip
    special = lambda word: {"SpecialToken": {"id": word, "type_id": 0}}  # noqa: E731
    first, second = ({"Sequence": {"id": part, "type_id": 0}} for part in "AB")
    ends = {word: {"id": word, "ids": [known[word]], "tokens": [word]} for word in ("[CLS]", "[SEP]")}
    template = {
        "type": "TemplateProcessing", "special_tokens": ends, "single": [special("[CLS]"), first, special("[SEP]")],
        "pair": [special("[CLS]"), first, special("[SEP]"), second, special("[SEP]")],
    }  # fmt: skip
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": template, "decoder": None,
        "model": {"type": "WordLevel", "vocab": known, "unk_token": "[UNK]"},
    }  # fmt: skip


def write_tensors(tensors, path):
    """A safetensors file."""
    header, begin = {}, 0
    for name, tensor in tensors.items():
        end = begin + 4 * tensor.numel()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            values = tensor.contiguous()
            # Without NumPy, which PyTorch does not need to have beside it.
            file.write(ctypes.string_at(values.data_ptr(), 4 * values.numel()))


def texts(count, longest, vocabulary):
    """Rows of (text, class): many short, some longer than a model reads; each class has words of its own."""
    rng = random.Random(0)
    middle = math.log(longest / 2)
    for row in range(count):
        length = max(4, min(2 * longest, int(rng.lognormvariate(middle, 0.7))))
        half = (vocabulary - len(SPECIAL)) // 2
        lead = len(SPECIAL) + (row % 2) * half
        own = (f"w{lead + rng.randrange(half)}" for _ in range(length // 2))
        any_ = (f"w{len(SPECIAL) + rng.randrange(2 * half)}" for _ in range(length - length // 2))
        yield " ".join([*own, *any_]), row % 2
