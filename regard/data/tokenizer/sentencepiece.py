"""Subwords of an imported model: its sentencepiece files as they are, and its own numbering of their pieces.

The file's own normaliser applies, not ours, so a text decodes to what that normaliser made of it. Encoding and decoding
equal those of Marian's and M2M100's tokenizers in transformers, except that text which reads like a special token or a
language tag (`</s>`, `>>deu<<`) stays text here.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import sentencepiece

from regard.data.tokenizer._base import SPACE, SPECIALS, Tokenizer, is_byte
from regard.data.tokenizer._charsmap import is_bounded, tables
from regard.data.tokenizer._imported_tokenizer import ImportedTokenizer
from regard.data.tokenizer._imported_vocabulary import ImportedVocabulary, without_surrogates
from regard.errors import UserError
from regard.registry import MOST

__all__ = ["SentencePiece"]

_FILE, _SOURCE, _TARGET = "tokenizer.json", "tokenizer.source.model", "tokenizer.target.model"


class SentencePiece(ImportedTokenizer):
    """Pieces of a sentencepiece model, numbered by a vocabulary of its own; the target may have another of both."""

    kind: ClassVar[str] = "sentencepiece"

    def __init__(
        self,
        source_model: bytes,
        tokens: Sequence[str],
        *,
        target_model: bytes | None = None,
        target_tokens: Sequence[str] | None = None,
        hidden: Collection[str] = (),
        specials: Sequence[str] = SPECIALS,
    ) -> None:
        """`tokens` are those of ids 4, 5, ...; pieces that are not among them are unknown.

        Args:
            source_model: The sentencepiece model that source texts are cut with.
            tokens: The vocabulary; its names must differ.
            target_model: The target language's sentencepiece model, if it is another one.
            target_tokens: The target language's vocabulary, if it is another one.
            hidden: Tokens that are no text, such as language tags: they decode to nothing, and no text contains them.
            specials: How ids 0 to 3 are displayed; a name that another token has is replaced.
        """
        self._processor = _load(source_model, _SOURCE)
        self._vocabulary = _vocabulary(self._processor, tokens, hidden, specials)
        self._files = {_SOURCE: source_model, **({} if target_model is None else {_TARGET: target_model})}
        self._saved: dict[str, Any] = {
            "kind": self.kind,
            "special": list(specials),
            "hidden": sorted(hidden),
            "tokens": list(tokens),
            **({} if target_tokens is None else {"target_tokens": list(target_tokens)}),
        }
        self._other: SentencePiece | None = None
        if target_model is not None or target_tokens is not None:
            self._other = SentencePiece(
                source_model if target_model is None else target_model,
                tokens if target_tokens is None else target_tokens,
                hidden=hidden,
                specials=specials,
            )

    @classmethod
    def from_files(cls, files: Mapping[str, bytes], **options: Any) -> SentencePiece:
        saved = json.loads(files[_FILE])
        lists = {name: saved.get(name) for name in ("tokens", "target_tokens", "hidden", "special")}
        for name, value in lists.items():
            if not (value is None and name == "target_tokens") and not _are_texts(value):
                raise UserError(f"{_FILE}: '{name}' is not a list of texts; take another copy of the model")
        if _SOURCE not in files:
            raise UserError(f"{_SOURCE} is missing; take another copy of the model")
        return cls(
            files[_SOURCE],
            saved["tokens"],
            target_model=files.get(_TARGET),
            target_tokens=saved.get("target_tokens"),
            hidden=saved["hidden"],
            specials=saved["special"],
        )

    def files(self) -> dict[str, bytes]:
        return {_FILE: json.dumps(self._saved, ensure_ascii=False, indent=0).encode(), **self._files}

    @property
    def target(self) -> Tokenizer:
        return self._other or self

    def sizes(self) -> dict[str, int]:
        if "target_tokens" not in self._saved:
            return {"vocabulary": len(self)}
        return {"vocabulary": len(self.target), "source_vocabulary": len(self)}

    def encode(self, text: str) -> list[int]:
        return self._vocabulary.lookup(self._processor.encode(without_surrogates(text), out_type=str))

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        many = self._processor.encode([without_surrogates(text) for text in texts], out_type=str)
        return [self._vocabulary.lookup(pieces) for pieces in many]


def _load(model: bytes, file: str) -> sentencepiece.SentencePieceProcessor:
    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        count = len(processor) if model else 0
        bounded = all(map(is_bounded, tables(model)))
    except (RuntimeError, ValueError, TypeError, OSError, IndexError) as error:
        why = " ".join(str(error).split())[:200]
        raise UserError(f"{file} is not a sentencepiece model ({why}); take another copy of the model") from None
    if not 0 < count <= MOST:
        raise UserError(f"{file} is not a sentencepiece model of 1 to {MOST:,} pieces; take another copy of the model")
    if not bounded:
        raise UserError(f"{file}: its normaliser makes texts many times as long; take another copy of the model")
    return processor


def _vocabulary(
    processor: sentencepiece.SentencePieceProcessor,
    tokens: Sequence[str],
    hidden: Collection[str],
    specials: Sequence[str],
) -> ImportedVocabulary:
    """What the model's file calls control symbols is hidden, too."""
    try:
        known: list[str] = processor.id_to_piece(list(range(len(processor))))
    except UnicodeDecodeError:
        raise UserError("its sentencepiece model has pieces that are no text; take another copy of the model") from None
    control = {piece for i, piece in enumerate(known) if processor.is_control(i)}
    octets = {piece: int(piece[3:5], 16) for i, piece in enumerate(known) if processor.is_byte(i) and is_byte(piece)}
    parts = (octets[token] if token in octets else token.replace(SPACE, " ") for token in tokens)
    return ImportedVocabulary(tokens, specials, {*hidden, *control}, parts)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)
