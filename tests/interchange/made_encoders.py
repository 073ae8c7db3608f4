"""Hugging Face folders of tiny BERTs, DistilBERTs and RoBERTas with random weights, made by save_pretrained."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import tokenizers
import transformers
from safetensors.torch import load_file, save_file

from tests.data import imported_text
from tests.interchange.made_language_models import randomised

ROLES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ANGLES = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
LABELS = ["neutral", "good", "bad"]
TAGS = ["O", "B-place", "I-place", "B-person"]
LONGEST = 24
"""Positions, the two around a text among them."""
SMALL = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 24, "intermediate_size": 40}
DISTILLED = {"n_layers": 2, "n_heads": 4, "dim": 24, "hidden_dim": 40, "max_position_embeddings": LONGEST}


class Variant(NamedTuple):
    family: str
    head: str
    config: dict[str, Any] = {}
    tokenizer: dict[str, Any] = {}
    files: str = "json"
    """`plain`: the vocabulary and its settings, without tokenizer.json."""
    old: bool = False
    """Names as in files of 2019: gamma and beta, and no prefix."""


VARIANTS = {
    "bert": Variant("bert", "MaskedLM"),
    "bert cased": Variant(
        "bert", "MaskedLM", {"hidden_act": "gelu_new"}, {"do_lower_case": False, "strip_accents": False}, "plain"
    ),
    "bert with pooler": Variant("bert", "PreTraining", {"hidden_act": "relu", "type_vocab_size": 3}, old=True),
    "bert untied": Variant("bert", "MaskedLM", {"tie_word_embeddings": False}, {"tokenize_chinese_chars": False}),
    "bert classifier": Variant("bert", "SequenceClassification", {"classifier_dropout": 0.2}),
    "bert tagger": Variant("bert", "TokenClassification", {"layer_norm_eps": 1e-3}, {"do_lower_case": False}),
    "distilbert": Variant("distilbert", "MaskedLM", {"sinusoidal_pos_embds": True}),
    "distilbert classifier": Variant("distilbert", "SequenceClassification", {"activation": "relu"}, files="plain"),
    "distilbert tagger": Variant("distilbert", "TokenClassification"),
    "roberta": Variant("roberta", "MaskedLM", {"hidden_act": "gelu_new"}),
    "roberta classifier": Variant("roberta", "SequenceClassification", files="plain"),
    "roberta tagger": Variant("roberta", "TokenClassification", {}, {"add_prefix_space": True}),
}
"""Folders as they differ in the wild."""
_CLASSES = {"bert": "Bert", "distilbert": "DistilBert", "roberta": "Roberta"}


@cache
def word_pieces(lower: bool) -> list[str]:
    made = tokenizers.BertWordPieceTokenizer(lowercase=lower, strip_accents=lower)
    made.train_from_iterator(imported_text.lines(), vocab_size=600, special_tokens=[*ROLES], show_progress=False)
    return [piece for piece, _ in sorted(made.get_vocab().items(), key=lambda pair: pair[1])]


@cache
def byte_pairs() -> tokenizers.ByteLevelBPETokenizer:
    made = tokenizers.ByteLevelBPETokenizer()
    made.train_from_iterator(imported_text.lines(), vocab_size=420, special_tokens=[*ANGLES], show_progress=False)
    return made


def make(folder: Path, variant: Variant) -> tuple[Any, Any]:
    """Writes a folder, and returns the model and the tokenizer of transformers."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = _tokenizer(folder, variant)
    prefix, roberta = _CLASSES[variant.family], variant.family == "roberta"
    shape: dict[str, Any] = {**SMALL, "max_position_embeddings": LONGEST + (2 if roberta else 0)}
    shape = DISTILLED if variant.family == "distilbert" else shape
    if roberta:
        shape |= {"type_vocab_size": 1}
    names = {"SequenceClassification": LABELS, "TokenClassification": TAGS}.get(variant.head)
    if names:
        shape = {**shape, "id2label": dict(enumerate(names)), "label2id": {name: i for i, name in enumerate(names)}}
    rows = {"vocab_size": len(tokenizer) + 3, "pad_token_id": tokenizer.pad_token_id}
    config = getattr(transformers, f"{prefix}Config")(**{**shape, **rows, **variant.config})
    model = randomised(getattr(transformers, f"{prefix}For{variant.head}")(config))
    model.save_pretrained(folder)
    if variant.old:
        _as_of_old(folder / "model.safetensors")
    return model, tokenizer


def _tokenizer(folder: Path, variant: Variant) -> Any:
    settings = {"model_max_length": LONGEST, **variant.tokenizer}
    if variant.family == "roberta":
        byte_pairs().save_model(str(folder))
        mask = transformers.AddedToken("<mask>", lstrip=True, special=True)
        tokenizer: Any = transformers.RobertaTokenizer(
            str(folder / "vocab.json"), str(folder / "merges.txt"), mask_token=mask, **settings
        )
        kept = ["vocab.json", "merges.txt"]
    else:
        lines = word_pieces(variant.tokenizer.get("do_lower_case", True))
        (folder / "vocab.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        maker = getattr(transformers, f"{_CLASSES[variant.family]}Tokenizer", transformers.BertTokenizer)
        tokenizer = maker(str(folder / "vocab.txt"), **settings)
        kept = ["vocab.txt"]
    if variant.files == "plain":
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    else:
        for name in kept:
            (folder / name).unlink()
        tokenizer.save_pretrained(folder)
    return tokenizer


def _as_of_old(file: Path) -> None:
    ends = {".LayerNorm.weight": ".LayerNorm.gamma", ".LayerNorm.bias": ".LayerNorm.beta"}
    renamed = {}
    for name, tensor in load_file(file).items():
        for new, old in ends.items():
            name = name.replace(new, old)
        renamed[name.removeprefix("bert.")] = tensor.clone()
    save_file(renamed, file, metadata={"format": "pt"})
