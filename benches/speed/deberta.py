"""DeBERTa-v3 in PyTorch alone, as transformers computes it: there is no fused attention with relative positions."""
import math

import torch
from encoder import Layer
from torch import nn


def buckets(length, size, most, device):
    """The bucket of each distance [L, L]: near ones have their own, far ones share by the logarithm."""
    places = torch.arange(length, device=device)
    distance = places[:, None] - places[None, :]
    half = size // 2
    near = distance.abs().clamp(min=half - 1).float()
    far = torch.ceil(torch.log(near / half) / math.log((most - 1) / half) * (half - 1)) + half
    return torch.where(distance.abs() < half, distance, far.long() * distance.sign()).clamp(-size, size - 1)


class Disentangled(nn.Module):
    """Attention by content, and by content and position either way; positions share the projections of the content."""

    def __init__(self, config):
        super().__init__()
        self.heads, size = config.num_attention_heads, config.hidden_size
        self.scale = math.sqrt(3 * size // self.heads)
        self.query_proj, self.key_proj, self.value_proj = (nn.Linear(size, size) for _ in range(3))

    def split(self, x):
        """[.., L, H] to [.., heads, L, H / heads]."""
        return x.unflatten(-1, (self.heads, -1)).transpose(-3, -2)

    def forward(self, x, mask, relative):
        table, places = relative
        q, k, v = self.split(self.query_proj(x)), self.split(self.key_proj(x)), self.split(self.value_proj(x))
        shape = (*q.shape[:-1], k.shape[-2])
        scores = q @ k.transpose(-1, -2)
        scores = scores + (q @ self.split(self.key_proj(table)).transpose(-1, -2)).gather(-1, places.expand(shape))
        back = k @ self.split(self.query_proj(table)).transpose(-1, -2)
        scores = (scores + back.gather(-1, places.T.expand(shape)).transpose(-1, -2)) / self.scale
        weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1).to(v.dtype)
        return (weights @ v).transpose(1, 2).flatten(2)


class DebertaEmbeddings(nn.Module):
    def __init__(self, config, dropout):
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(dropout)

    def forward(self, ids, mask):
        return self.dropout(self.LayerNorm(self.word_embeddings(ids)) * mask[..., None])


class Deberta(nn.Module):
    def __init__(self, config, dropout):
        super().__init__()
        self.config = config
        self.embeddings = DebertaEmbeddings(config, dropout)
        layers = (Layer(config, dropout, Disentangled) for _ in range(config.num_hidden_layers))
        self.encoder = nn.ModuleDict({
            "layer": nn.ModuleList(layers),
            "rel_embeddings": nn.Embedding(2 * config.position_buckets, config.hidden_size),
            "LayerNorm": nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps),
        })  # fmt: skip
        self.places = {}

    def forward(self, ids, mask):
        """Token ids and a mask that is true where there is a token, both [B, L], to [B, L, H]."""
        size, length = self.config.position_buckets, ids.shape[1]
        if length not in self.places:
            found = buckets(length, size, self.config.max_position_embeddings, ids.device)
            self.places[length] = (found + size).clamp(0, 2 * size - 1)
        table = self.encoder["LayerNorm"](self.encoder["rel_embeddings"].weight)
        both = mask[:, None, None, :] & mask[:, None, :, None]
        x = self.embeddings(ids, mask)
        for layer in self.encoder["layer"]:
            x = layer(x, both, (table, self.places[length]))
        return x
