"""The tokenizer in a GGUF file's metadata as a `tokenizer.json` (byte-level BPE) or a sentencepiece model."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

from regard.data.tokenizer.hugging_face import SPLITS
from regard.interchange.families._language_model import byte_level
from regard.interchange.read._gguf_file import GGUFFile
from regard.terminal_text import escape_control_characters, one_line

_CONTROL, _USER_DEFINED = 3, 4
"""Types of tokens, which are sentencepiece's."""
_DIGITS = {"type": "Digits", "individual_digits": True}
_WORDS = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
_BYTES = _WORDS | {"use_regex": False}


def _split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


_THREE_DIGITS, _ONE_DIGIT = SPLITS
_KINDS: dict[str, dict[str, Any]] = {
    "gpt-2": {"split": [_WORDS]},
    "default": {"split": [_WORDS]},
    "smollm": {"split": [_DIGITS, _WORDS]},
    "llama-bpe": {"split": [_split(_THREE_DIGITS), _BYTES], "ignore_merges": True},
    "qwen2": {"split": [_split(_ONE_DIGIT), _BYTES], "normalizer": {"type": "NFC"}},
}
"""How texts are cut into words before BPE, by the name that llama.cpp has for it."""


def byte_level_file(file: GGUFFile, tokens: Sequence[str], types: Sequence[int]) -> bytes:
    pre = file.metadata.get("tokenizer.ggml.pre", "default")
    if not isinstance(pre, str) or pre not in _KINDS:
        shown = escape_control_characters(one_line(str(pre)))[:60]
        raise file.refuse(f"tokenizer.ggml.pre = {shown} is not known here; there is: {', '.join(_KINDS)}")
    merges = file.metadata.get("tokenizer.ggml.merges")
    if not isinstance(merges, list) or not all(isinstance(one, str) and one.count(" ") == 1 for one in merges):
        raise file.refuse("its merges are missing or no pairs")
    added = {id: types[id] == _CONTROL for id in range(len(tokens)) if types[id] in (_CONTROL, _USER_DEFINED)}
    return byte_level(dict(enumerate(tokens)), [one.split(" ") for one in merges], added, **_KINDS[pre])


def sentencepiece_file(file: GGUFFile, tokens: Sequence[str], types: Sequence[int]) -> bytes:
    """A sentencepiece model of these pieces and scores (its protocol buffer, written by hand: a few fields)."""
    scores = file.metadata.get("tokenizer.ggml.scores")
    if not isinstance(scores, list) or len(scores) != len(tokens) or not all(map(_finite, scores)):
        raise file.refuse("its tokens have no scores")
    if not all(0 < type < 7 for type in types):
        raise file.refuse("its tokens are of types that are not known here")
    parts = []
    for token, score, type in zip(tokens, scores, types):
        piece = _field(1, token.encode()) + b"\x15" + struct.pack("<f", score) + _number(3, type)
        parts.append(_field(1, piece))
    ids = {name: file.metadata.get(f"tokenizer.ggml.{name}_token_id", -1) for name in ("unknown", "bos", "eos")}
    unknown = ids["unknown"] if ids["unknown"] != -1 else 0
    trainer = _number(3, 2) + _number(35, 1)  # BPE, with bytes for unknown characters
    for field, id in ((40, unknown), (41, ids["bos"]), (42, ids["eos"]), (43, -1)):
        trainer += _number(field, id)
    spaced = file.metadata.get("tokenizer.ggml.add_space_prefix", True)
    normal = _field(1, b"identity") + _number(3, int(bool(spaced))) + _number(4, 0) + _number(5, 1)
    return b"".join([*parts, _field(2, trainer), _field(3, normal)])


def _finite(score: object) -> bool:
    return isinstance(score, float) and math.isfinite(score)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value & (1 << 64) - 1)


def _field(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])
