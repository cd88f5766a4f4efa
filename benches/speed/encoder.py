"""Encoders in PyTorch alone: the names of Hugging Face checkpoints, fused attention, no other package.

A machine with a GPU may have PyTorch and nothing else. `check.py` shows that this one is as fast as transformers'.
"""
import json
import struct
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn

TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64}


def read_tensors(path):
    """The tensors of a safetensors file, in 32-bit floats."""
    data = Path(path).read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name != "__metadata__":
            begin, end = (8 + size + place for place in entry["data_offsets"])
            flat = torch.frombuffer(bytearray(data[begin:end]), dtype=TYPES[entry["dtype"]])
            tensors[name] = flat.view(entry["shape"]).float()
    return tensors


def read_config(folder):
    return SimpleNamespace(**json.loads((Path(folder) / "config.json").read_text()))


class Embeddings(nn.Module):
    def __init__(self, config, dropout):
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(dropout)

    def forward(self, ids):
        places = torch.arange(ids.shape[1], device=ids.device)
        words = self.word_embeddings(ids) + self.token_type_embeddings(torch.zeros_like(ids))
        return self.dropout(self.LayerNorm(words + self.position_embeddings(places)))


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = config.num_attention_heads
        size = config.hidden_size
        self.query, self.key, self.value = nn.Linear(size, size), nn.Linear(size, size), nn.Linear(size, size)

    def forward(self, x, mask):
        rows, length, size = x.shape
        split = (rows, length, self.heads, size // self.heads)
        q, k, v = (part(x).view(split).transpose(1, 2) for part in (self.query, self.key, self.value))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).reshape(rows, length, size)


class Residual(nn.Module):
    """A linear layer, dropout, the sum with what went in before, and a norm."""

    def __init__(self, config, size, dropout):
        super().__init__()
        self.dense = nn.Linear(size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, before):
        return self.LayerNorm(self.dropout(self.dense(x)) + before)


class Layer(nn.Module):
    """A block whose parameters have the names that checkpoints give them."""

    def __init__(self, config, dropout, attention=Attention):
        super().__init__()
        self.attention = nn.ModuleDict(
            {"self": attention(config), "output": Residual(config, config.hidden_size, dropout)}
        )
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(config.hidden_size, config.intermediate_size)})
        self.output = Residual(config, config.intermediate_size, dropout)

    def forward(self, x, *mask):
        x = self.attention["output"](self.attention["self"](x, *mask), x)
        return self.output(F.gelu(self.intermediate["dense"](x)), x)


class Bert(nn.Module):
    def __init__(self, config, dropout):
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config, dropout)
        layers = (Layer(config, dropout) for _ in range(config.num_hidden_layers))
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(layers)})

    def forward(self, ids, mask):
        """Token ids and a mask that is true where there is a token, both [B, L], to [B, L, H]."""
        x = self.embeddings(ids)
        for layer in self.encoder["layer"]:
            x = layer(x, mask[:, None, None, :])
        return x


def architecture(config):
    """The class for a configuration."""
    if config.model_type == "deberta-v2":
        from deberta import Deberta

        return Deberta
    return Bert


class Classifier(nn.Module):
    """An encoder and a linear layer on the mean over a row's tokens."""

    def __init__(self, encoder, classes, dropout):
        super().__init__()
        self.encoder = encoder
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(encoder.config.hidden_size, classes)
        nn.init.normal_(self.classifier.weight, std=0.02)
        nn.init.zeros_(self.classifier.bias)

    def forward(self, ids, mask):
        x = self.encoder(ids, mask)
        weights = (mask / mask.sum(1, keepdim=True)).to(x.dtype)
        return self.classifier(self.dropout((weights[:, None] @ x).squeeze(1)))

    def freeze(self, layers):
        """Freezes the first layers, with them the embeddings."""
        if layers:
            frozen = [self.encoder.embeddings, *self.encoder.encoder["layer"][:layers]]
            if layers == self.encoder.config.num_hidden_layers:
                frozen = [self.encoder]
            for module in frozen:
                module.requires_grad_(False)


def load(folder, classes, dropout):
    """A classifier with a checkpoint's weights."""
    config = read_config(folder)
    with torch.device("meta"):
        encoder = architecture(config)(config, dropout)
    tensors = read_tensors(Path(folder) / "model.safetensors")
    names = set(encoder.state_dict())
    stripped = {name.removeprefix(f"{config.model_type}.").removeprefix("bert."): t for name, t in tensors.items()}
    encoder.load_state_dict({name: t for name, t in stripped.items() if name in names}, strict=True, assign=True)
    return Classifier(encoder.requires_grad_(True), classes, dropout)


def load_transformers(folder, classes, dropout):
    """The same around transformers' own encoder."""
    import transformers

    transformers.logging.set_verbosity_error()
    config = transformers.AutoConfig.from_pretrained(folder)
    config.hidden_dropout_prob, config.attention_probs_dropout_prob = dropout, 0.0
    # DeBERTa has neither in transformers.
    more = {} if config.model_type == "deberta-v2" else {"attn_implementation": "sdpa", "add_pooling_layer": False}
    model = transformers.AutoModel.from_pretrained(folder, config=config, torch_dtype=torch.float32, **more)
    return Classifier(Wrapped(model), classes, dropout)


class Wrapped(nn.Module):
    """transformers' encoder with the call and the names that `Classifier` knows."""

    def __init__(self, model):
        super().__init__()
        self.model, self.config = model, model.config

    @property
    def embeddings(self):
        return self.model.embeddings

    @property
    def encoder(self):
        return {"layer": self.model.encoder.layer}

    def forward(self, ids, mask):
        return self.model(input_ids=ids, attention_mask=mask.long()).last_hidden_state
