"""Writes tests/reference/embeddings: two small random checkpoints as `pytorch_model.bin`, and what
transformers makes of texts with them. Needs torch 2.11, transformers 4.57 and what
make_tokenizers.py wrote; run it in tests/reference.
"""

import json
import os
import shutil

import torch
from safetensors.torch import save_file
from transformers import AutoTokenizer, DebertaV2Config, DebertaV2Model, XLMRobertaConfig, XLMRobertaModel

OUT = "embeddings"
SMALL = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)
MAX_LENGTH = 40


def case(name, tokenizer_case, model, legacy):
    directory = os.path.join(OUT, name)
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    files = json.load(open(f"tokenizers/{tokenizer_case}/files.json"))
    for target, source in files.items():
        shutil.copy(f"tokenizers/{source}", os.path.join(directory, target))
    for extra in ["tokenizer_config.json", "added_tokens.json"]:
        if os.path.exists(f"tokenizers/{tokenizer_case}/{extra}"):
            shutil.copy(f"tokenizers/{tokenizer_case}/{extra}", directory)
    model.config.save_pretrained(directory)
    state = model.state_dict()
    torch.save(state, os.path.join(directory, "pytorch_model.bin"), _use_new_zipfile_serialization=not legacy)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    texts = json.load(open("tokenizers/texts.json"))["texts"]
    batch = tokenizer(texts, padding=True, truncation=True, max_length=MAX_LENGTH, return_tensors="pt")
    with torch.no_grad():
        out = model(**batch)
    tensors = {
        "last_hidden_state": out.last_hidden_state.contiguous(),
        "attention_mask": batch["attention_mask"].contiguous(),
    }
    if getattr(out, "pooler_output", None) is not None:
        tensors["pooled"] = out.pooler_output.contiguous()
    save_file(tensors, os.path.join(directory, "reference.safetensors"))
    # The tokeniser's files are kept once; the tests put them in place.
    for file in list(files) + ["tokenizer_config.json", "added_tokens.json"]:
        if os.path.exists(os.path.join(directory, file)):
            os.remove(os.path.join(directory, file))


def main():
    torch.manual_seed(11)
    xlmr = XLMRobertaModel(XLMRobertaConfig(vocab_size=420, max_position_embeddings=66, type_vocab_size=1, pad_token_id=1, bos_token_id=0, eos_token_id=2, **SMALL)).eval()
    case("xlmr", "xlmr", xlmr, legacy=True)
    deberta = DebertaV2Model(DebertaV2Config(
        vocab_size=420, max_position_embeddings=64, type_vocab_size=0, pad_token_id=0, relative_attention=True,
        position_buckets=8, norm_rel_ebd="layer_norm", share_att_key=True, pos_att_type=["p2c", "c2p"],
        position_biased_input=False, **SMALL)).eval()
    case("deberta", "deberta", deberta, legacy=False)


main()
