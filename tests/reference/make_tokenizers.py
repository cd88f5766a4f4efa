"""Writes tests/reference/tokenizers: small vocabularies of every older kind and the ids that
transformers makes with them. Needs transformers 4.57, sentencepiece 0.2 and the reviews in
configs/data; run it in tests/reference.
"""

import csv
import json
import os
import shutil

import sentencepiece
from tokenizers import ByteLevelBPETokenizer, BertWordPieceTokenizer
from transformers import AutoTokenizer

OUT = "tokenizers"
REVIEWS = "../../configs/data/reviews.csv"

TEXTS = [
    "",
    " ",
    "The battery lasts 10 hours, and the screen is great!",
    "  leading, trailing   and  double spaces  ",
    "tabs\tand\nnew lines\r\nand a no-break\u00a0space",
    "control \u0000 \u0007 \u001b[0m characters \ufeff and \u200b zero width",
    "caf\u00e9 cafe\u0301 na\u00efve \u00c5ngstr\u00f6m \u0130stanbul stra\u00dfe",
    "\u6211\u559c\u6b22\u8fd9\u4e2a\u624b\u673a\u3002\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8 \ud55c\uad6d\uc5b4",
    "\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea \u2764\ufe0f ok",
    "\uff26\uff35\uff2c\uff2c \uff57\uff49\uff44\uff54\uff48 \u2122 \u00bd \u2460 \ufb01ne",
    "\u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd \u0939\u093f\u0928\u094d\u0926\u0940",
    "special [MASK] and <mask> and </s> [SEP] in   <s>  the text[CLS]x <unk> [UNK] <pad>",
    "a" * 120 + " " + "don't can't I'M 3.14159 e-mail@example.com $5,000",
    "\u2581under \u2581\u2581score ... ??? --- ''quotes`` \u201ccurly\u201d",
    "\u00ad\u0301\u0301 lone marks \u202eright to left\u202c",
    "<new> token and NEWWORD inNEWWORDside",
]
PAIRS = [("The screen is bright.", "Does it  work?"), ("", "second only"), ("first only", "")]


def texts():
    with open(REVIEWS, newline="") as file:
        rows = [row["text"] for row in csv.DictReader(file)]
    return rows[:1500] + TEXTS[2:12] * 3


def train(name, corpus, **options):
    path = os.path.join(OUT, name)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus), model_prefix=path, character_coverage=0.999,
        hard_vocab_limit=False, num_threads=1, **options,
    )
    os.remove(path + ".vocab")
    return path + ".model"


def case(name, files, config, model_type, extra=None):
    directory = os.path.join(OUT, name)
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    for target, source in files.items():
        shutil.copy(source, os.path.join(directory, target))
    for target, content in {"config.json": {"model_type": model_type}, "tokenizer_config.json": config, **(extra or {})}.items():
        if content is not None:
            with open(os.path.join(directory, target), "w") as file:
                json.dump(content, file)
    tokenizer = AutoTokenizer.from_pretrained(directory, use_fast=True)
    assert tokenizer.is_fast
    # In lists: a lone empty second text would count as none.
    encode = lambda *texts: tokenizer(*([t] for t in texts), return_token_type_ids=True)
    results = [encode(t) for t in TEXTS] + [encode(a, b) for a, b in PAIRS]
    with open(os.path.join(directory, "expected.json"), "w") as file:
        json.dump([[r["input_ids"][0], r["token_type_ids"][0]] for r in results], file)
        file.write("\n")
    for target in files:
        # What cases share is kept once; the tests put it in place.
        os.remove(os.path.join(directory, target))
    with open(os.path.join(directory, "files.json"), "w") as file:
        json.dump({t: os.path.basename(s) for t, s in files.items()}, file)
        file.write("\n")


def main():
    os.makedirs(OUT, exist_ok=True)
    corpus = [t.replace("\0", "") for t in texts()]
    xlmr = train("nfkc", corpus, vocab_size=400, model_type="unigram")
    with open(os.path.join(OUT, "rules.tsv"), "w") as file:
        file.write("FF26\t46\nFF35\t55\nFB01\t66 69\n2122\t54 4D\n65 301\tE9\n")
    deberta = train(
        "rules", corpus, vocab_size=400, model_type="unigram",
        normalization_rule_tsv=os.path.join(OUT, "rules.tsv"), remove_extra_whitespaces=False,
        pad_id=0, bos_id=1, eos_id=2, unk_id=3, pad_piece="[PAD]", bos_piece="[CLS]",
        eos_piece="[SEP]", unk_piece="[UNK]", user_defined_symbols=["<new>"],
    )
    os.remove(os.path.join(OUT, "rules.tsv"))
    pairs = train(
        "pairs", corpus, vocab_size=400, model_type="bpe", normalization_rule_name="identity",
        pad_id=0, bos_id=1, eos_id=2, unk_id=3, pad_piece="[PAD]", bos_piece="[CLS]",
        eos_piece="[SEP]", unk_piece="[UNK]",
    )
    word = BertWordPieceTokenizer(lowercase=False)
    word.train_from_iterator(corpus, vocab_size=400, min_frequency=2, limit_alphabet=150, show_progress=False)
    word.save_model(OUT, "wordpiece")
    byte = ByteLevelBPETokenizer()
    byte.train_from_iterator(corpus, vocab_size=500, show_progress=False, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    byte.save_model(OUT, "bytes")
    file = lambda name: os.path.join(OUT, name)

    case("xlmr", {"sentencepiece.bpe.model": xlmr}, None, "xlm-roberta")
    case("camembert", {"sentencepiece.bpe.model": xlmr}, None, "camembert")
    case("deberta", {"spm.model": deberta}, {"do_lower_case": False, "vocab_type": "spm"}, "deberta-v2",
         {"added_tokens.json": {"[MASK]": 400}})
    case("deberta_lower", {"spm.model": deberta},
         {"tokenizer_class": "DebertaV2Tokenizer", "do_lower_case": True, "split_by_punct": True}, "bert")
    case("deberta_bpe", {"spm.model": pairs}, None, "deberta-v2")
    case("bert", {"vocab.txt": file("wordpiece-vocab.txt")}, None, "bert")
    case("bert_cased", {"vocab.txt": file("wordpiece-vocab.txt")},
         {"do_lower_case": False, "strip_accents": False, "tokenize_chinese_chars": False}, "electra",
         {"special_tokens_map.json": {"mask_token": {"content": "[MASK]", "lstrip": True, "rstrip": False, "normalized": False, "single_word": False}},
          "added_tokens.json": {"NEWWORD": 400, "<new>": 401}})
    roberta = {"vocab.json": file("bytes-vocab.json"), "merges.txt": file("bytes-merges.txt")}
    case("roberta", roberta, None, "roberta")
    case("roberta_prefix", roberta,
         {"add_prefix_space": True, "tokenizer_class": "RobertaTokenizer",
          "added_tokens_decoder": {
              "4": {"content": "<mask>", "lstrip": True, "rstrip": True, "normalized": True, "single_word": False, "special": True},
              "500": {"content": "NEWWORD", "lstrip": False, "rstrip": False, "normalized": True, "single_word": True, "special": False}}}, "roberta")
    with open(file("texts.json"), "w") as out:
        json.dump({"texts": TEXTS, "pairs": PAIRS}, out)
        out.write("\n")


main()
