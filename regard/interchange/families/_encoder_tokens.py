"""Tokenizers of BERT, DistilBERT and RoBERTa: their special tokens, and a tokenizer.json of whichever files there are.

The class that a folder names for its tokenizer decides, as in transformers: BERT's and RoBERTa's build the tokenizer of
the vocabulary and the settings in tokenizer_config.json; for any other class tokenizer.json counts as it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from regard.errors import UserError, suggestion
from regard.interchange.families import _tokens
from regard.interchange.families._config import Config
from regard.interchange.families._language_model import byte_level, merges_of
from regard.interchange.read.foreign_folder import ForeignFolder

WORDS, VOCABULARY = "vocab.txt", "vocab.json"
WORD_PIECE, BYTE_LEVEL, AS_IT_IS = "WordPiece", "BPE", ""
BRACKETS = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
ANGLES = {"pad": "<pad>", "unk": "<unk>", "cls": "<s>", "sep": "</s>", "mask": "<mask>"}
_CLASSES = {
    "BertTokenizer": WORD_PIECE,
    "BertTokenizerFast": WORD_PIECE,
    "DistilBertTokenizer": WORD_PIECE,
    "DistilBertTokenizerFast": WORD_PIECE,
    "RobertaTokenizer": BYTE_LEVEL,
    "RobertaTokenizerFast": BYTE_LEVEL,
    "PreTrainedTokenizerFast": AS_IT_IS,
    "TokenizersBackend": AS_IT_IS,
}
_MOST_LINES = 1 << 20


class Read(NamedTuple):
    """A tokenizer as tokenizer.json, and what its tokens are for."""

    file: bytes
    pieces: dict[int, str]
    special: dict[str, int]
    """The id of each role (pad, unk, cls, sep) and, if there is one, of the mask."""
    enclosed: bool
    """Whether a text begins with cls and ends with sep."""


def read(config: Config, files: ForeignFolder, size: int, usual: str) -> Read:
    """`usual` is the tokenizer of a folder that names no class: WORD_PIECE or BYTE_LEVEL."""
    stated = _tokens.tokenizer_config(files).get("tokenizer_class") or config.get("tokenizer_class")
    if stated is not None and str(stated) not in _CLASSES:
        raise UserError(
            f"{files.path}: its tokenizer is a {str(stated)[:60]}, which is not known here"
            f"{suggestion(str(stated)[:60], _CLASSES)}"
        )
    kind = _CLASSES[stated] if stated else usual
    if kind == AS_IT_IS and _tokens.TOKENIZER not in files:
        raise UserError(
            f"{files.path / _tokens.TOKENIZER} is missing, and its tokenizer is a {stated}; take another copy"
        )
    tree = files.json(_tokens.TOKENIZER) if _tokens.TOKENIZER in files else None
    pieces = _pieces(files, size, kind)
    if kind == WORD_PIECE:
        special = _special(files, pieces, BRACKETS)
        file = _word_piece(files, tree, pieces, special)
    elif kind == BYTE_LEVEL:
        special = _special(files, pieces, ANGLES)
        file = _bytes(files, tree, pieces, special)
    else:
        special = _special(files, pieces, BRACKETS if usual == WORD_PIECE else ANGLES)
        file = files.read(_tokens.TOKENIZER)
    enclosed = kind != AS_IT_IS or _encloses(files, tree or {}, pieces, special)
    return Read(file, pieces, special, enclosed)


def _pieces(files: ForeignFolder, size: int, kind: str) -> dict[int, str]:
    """The tokens by id."""
    if _tokens.TOKENIZER in files:
        found = _tokens.hugging_face_pieces(files)
    elif kind == WORD_PIECE:
        found = _lines(files) | _tokens.added_tokens(files)
    else:
        found = _tokens.vocabulary_file(files, VOCABULARY, size) | _tokens.added_tokens(files)
    if found and max(found) >= size:
        raise UserError(
            f"{files.path}: the tokenizer has a token with the id {max(found):,}, but the embedding has {size:,} rows; "
            "take another copy of the folder"
        )
    return found


def _lines(files: ForeignFolder) -> dict[int, str]:
    """vocab.txt: a token a line. Of a token that is there twice, the last line counts."""
    try:
        lines = files.read(WORDS).decode().replace("\r\n", "\n").removesuffix("\n").split("\n")
    except UnicodeDecodeError:
        raise UserError(f"{files.path / WORDS}: not UTF-8; take another copy") from None
    if len(lines) > _MOST_LINES:
        raise UserError(f"{files.path / WORDS}: has {len(lines):,} tokens; {_MOST_LINES:,} are the most")
    last = {line: id for id, line in enumerate(lines)}
    return {id: piece for piece, id in last.items() if piece}


def _special(files: ForeignFolder, pieces: Mapping[int, str], usual: Mapping[str, str]) -> dict[str, int]:
    by_name = {piece: id for id, piece in pieces.items()}
    found = {}
    for role, default in usual.items():
        name = _tokens.special_token(files, f"{role}_token", default)
        if name in by_name:
            found[role] = by_name[name]
        elif role != "mask":
            raise UserError(f"{files.path}: the tokenizer has no {role}_token {name[:40]!r}; take another copy")
    if len({found[role] for role in usual if role != "mask"}) < len(usual) - 1:
        raise UserError(f"{files.path}: pad_token, unk_token, cls_token and sep_token must be four tokens")
    return found


def _word_piece(
    files: ForeignFolder, tree: Mapping[str, Any] | None, pieces: Mapping[int, str], special: Mapping[str, int]
) -> bytes:
    """BERT's tokenizer. Texts are cleaned and split as the settings beside the vocabulary say."""
    stated = _tokens.tokenizer_config(files)
    if stated.get("do_basic_tokenize", True) is not True or stated.get("never_split"):
        raise UserError(
            f"{files.path / 'tokenizer_config.json'}: only tokenizers that split texts themselves are known"
        )
    lower, chinese = stated.get("do_lower_case", True), stated.get("tokenize_chinese_chars", True)
    accents = stated.get("strip_accents")
    if not all(isinstance(one, bool) for one in (lower, chinese, accents or False)):
        raise UserError(
            f"{files.path / 'tokenizer_config.json'}: do_lower_case, tokenize_chinese_chars and strip_accents must be "
            "true or false"
        )
    model = _model(files, tree, WORD_PIECE)
    words = {pieces[id]: id for id in sorted(pieces)}
    made = {
        "version": "1.0",
        "added_tokens": _added(files, tree, pieces, special),
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": chinese,
            "strip_accents": accents,
            "lowercase": lower,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": WORD_PIECE,
            "unk_token": pieces[special["unk"]],
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": model.get("vocab", words),
        },
    }
    return _written(files, made)


def _bytes(
    files: ForeignFolder, tree: Mapping[str, Any] | None, pieces: Mapping[int, str], special: Mapping[str, int]
) -> bytes:
    """RoBERTa's tokenizer."""
    prefix = _tokens.tokenizer_config(files).get("add_prefix_space", False)
    if not isinstance(prefix, bool):
        raise UserError(f"{files.path / 'tokenizer_config.json'}: add_prefix_space must be true or false")
    split = {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": True}
    if tree is None:
        added = dict.fromkeys(_tokens.added_tokens(files), False) | dict.fromkeys(special.values(), True)
        return byte_level(pieces, merges_of(files), added, [split])
    model = {
        **_model(files, tree, BYTE_LEVEL),
        "dropout": None,
        "continuing_subword_prefix": "",
        "end_of_word_suffix": "",
    }
    made = {
        "version": "1.0",
        "added_tokens": _added(files, tree, pieces, special),
        "normalizer": None,
        "pre_tokenizer": split,
        "decoder": {**split, "add_prefix_space": True},
        "model": model,
    }
    return _written(files, made)


def _written(files: ForeignFolder, tree: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(tree, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise UserError(f"{files.path / _tokens.TOKENIZER}: something in it is no text; take another copy") from None


def _model(files: ForeignFolder, tree: Mapping[str, Any] | None, kind: str) -> dict[str, Any]:
    """The model in a tokenizer.json; older files do not state its type."""
    if tree is None:
        return {}
    model = tree["model"]
    if model.get("type", kind) != kind:
        raise UserError(f"{files.path / _tokens.TOKENIZER}: a {kind} is needed, not {str(model['type'])[:40]!r}")
    return {**model, "type": kind}


def _added(
    files: ForeignFolder, tree: Mapping[str, Any] | None, pieces: Mapping[int, str], special: Mapping[str, int]
) -> list[Any]:
    """What is found in a text before the model sees it: as the file lists them, and the special tokens."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    entries = (tree or {}).get("added_tokens") or []
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        raise UserError(f"{files.path / _tokens.TOKENIZER}: its added_tokens are damaged; take another copy")
    listed = {one["id"]: one for one in entries if type(one.get("id")) is int}
    others = {} if tree else _tokens.added_tokens(files)
    added = {id: {"id": id, "content": piece, **flags, "special": False} for id, piece in others.items()} | listed
    for id in special.values():
        added[id] = {**flags, **listed.get(id, {}), "id": id, "content": pieces[id], "special": True}
    return [added[id] for id in sorted(added)]


def _encloses(
    files: ForeignFolder, tree: Mapping[str, Any], pieces: Mapping[int, str], special: Mapping[str, int]
) -> bool:
    """Whether a tokenizer.json puts cls and sep around a text. One that adds anything else is refused."""
    part: Any = tree.get("post_processor")
    if part is None:
        return False
    first, last = pieces[special["cls"]], pieces[special["sep"]]
    try:
        if part["type"] in ("BertProcessing", "RobertaProcessing"):
            around = [part["cls"][0], "A", part["sep"][0]]
        elif part["type"] == "ByteLevel":
            return False
        else:
            around = [next(iter(one.values()))["id"] for one in part["single"]]
    except (LookupError, TypeError, AttributeError, StopIteration):
        around = []
    if around not in ([first, "A", last], ["A"]):
        raise UserError(
            f"{files.path / _tokens.TOKENIZER}: texts are not put between {first[:20]} and {last[:20]}, which is all "
            "that is known here"
        )
    return len(around) == 3
