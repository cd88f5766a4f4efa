"""Writes minilm.safetensors: what the MiniLM encoder answers in PyTorch, for the parity test.

    python3 -m venv /tmp/venv-ref
    /tmp/venv-ref/bin/pip install 'transformers==4.57.6' 'torch==2.11.0'
    /tmp/venv-ref/bin/python tests/reference/make_reference.py ~/.cache/tune/models/minilm \
        tests/reference/minilm.safetensors

Token ids are stored beside the answers, so that the encoder is tested by itself; the texts are in the
metadata, so that the tokeniser is tested against the same ids. To stay small, hidden states are kept
for a few positions only; `pooled` is the mean over all tokens that are not padding.
"""

import json
import sys

import torch
from safetensors.torch import save_file
from transformers import AutoModel, AutoTokenizer

LONG = " ".join(f"The battery of unit {i} lasted {i % 7} days, then it died." for i in range(60))
CASES = {
    "sentences": [
        ("It works.", None),
        ("The picture quality is superb, but the menus are slow and hard to read.", None),
        ("Naïve façade; 100% übercool!", None),
    ],
    "pairs": [
        ("I could not sleep for weeks.", "insomnia"),
        ("The post mentions none of it, at any length worth reporting.", "depressed mood nearly every day"),
    ],
    "long": [(LONG, None)],
}
# Hidden states are kept at these positions, of the last layer and of the layer 2.
POSITIONS = {"sentences": [0, 1, 3], "pairs": [0, 6], "long": [0, 255, 511]}


def main(model_dir: str, out: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    model = AutoModel.from_pretrained(model_dir, attn_implementation="eager").eval().float()
    tensors, texts = {}, {}
    for name, rows in CASES.items():
        pairs = rows[0][1] is not None
        batch = tokenizer(
            [a for a, _ in rows],
            [b for _, b in rows] if pairs else None,
            padding=True,
            truncation=True,
            max_length=512,
            return_tensors="pt",
        )
        with torch.no_grad():
            answer = model(**batch, output_hidden_states=True)
        mask = batch["attention_mask"].unsqueeze(-1).float()
        last = answer.last_hidden_state
        keep = POSITIONS[name]
        tensors[f"{name}.ids"] = batch["input_ids"].int()
        tensors[f"{name}.types"] = batch["token_type_ids"].int()
        tensors[f"{name}.lengths"] = batch["attention_mask"].sum(1).int()
        tensors[f"{name}.positions"] = torch.tensor(keep, dtype=torch.int32)
        tensors[f"{name}.last"] = last[:, keep].contiguous()
        tensors[f"{name}.layer2"] = answer.hidden_states[2][:, keep].contiguous()
        tensors[f"{name}.pooled"] = ((last * mask).sum(1) / mask.sum(1)).contiguous()
        texts[name] = json.dumps(rows)
    save_file(tensors, out, metadata=texts)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
