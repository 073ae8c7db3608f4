"""Subwords: a unigram language model by sentencepiece (Kudo 2018), with bytes for characters it never saw.

Sentencepiece gets text that is already normalised and changes nothing itself, so any text comes back exactly.
"""

from __future__ import annotations

import io
import random as python_random
from bisect import bisect
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import sentencepiece

from regard.data.normalise import normalise
from regard.data.tokenizer._base import SPACE, SPECIALS, Tokenizer, spell
from regard.errors import UserError
from regard.types import BEGIN, END, PAD, UNKNOWN

__all__ = ["Subword"]

_FILE = "tokenizer.model"
_THREADS = 16  # constant, not the machine's cores: the learnt scores depend on it in their last digits
_CANDIDATES = 32
_LONGEST_WORD = 24
_REMEMBERED = 200_000


class Subword(Tokenizer):
    """Unigram subwords with byte fallback; nothing is unknown."""

    kind: ClassVar[str] = "subword"

    def __init__(self, model: bytes, sampling: float = 0.0) -> None:
        try:
            self._model = sentencepiece.SentencePieceProcessor(model_proto=model)
        except (RuntimeError, ValueError, TypeError) as error:
            raise UserError(f"{_FILE} is not a sentencepiece model ({error}); restore it or train again") from None
        processor = self._model
        ids = [processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id()]
        if ids != [PAD, UNKNOWN, BEGIN, END]:
            raise UserError(f"{_FILE} has pad, unknown, begin and end at {ids}, not at 0 to 3; train it with regard")
        self._bytes = model
        self.sampling = sampling
        """The alpha to sample with in training; 0 is off."""
        self._pieces = [processor.id_to_piece(i) for i in range(len(processor))]
        self._scores = [processor.get_score(i) for i in range(len(processor))]
        self._parts: list[str | int] = [
            int(piece[3:5], 16) if processor.is_byte(i) else piece.replace(SPACE, " ")
            for i, piece in enumerate(self._pieces)
        ]
        self._parts[: len(SPECIALS)] = [""] * len(SPECIALS)
        self._starts_word = [piece.startswith(SPACE) for piece in self._pieces]
        self._cuts: dict[tuple[float, tuple[int, ...]], tuple[list[list[int]], list[float]]] = {}

    @classmethod
    def train(
        cls,
        lines: Iterable[str],
        *,
        seed: int,
        size: int = 8000,
        sampling: float = 0.0,
        coverage: float = 0.9998,
        sample_lines: int = 200_000,
    ) -> Subword:
        """Learns `size` pieces (fewer when the text does not hold as many) from at most `sample_lines` lines.

        `coverage` is the share of all characters that get a piece of their own; the rest are spelled in bytes.
        """
        text = [line for line in _choose(map(normalise, lines), sample_lines, seed) if line]
        if not text:
            raise UserError("tokenizer: no text to learn subwords from; the corpus is empty")
        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(text),
                model_writer=model,
                model_type="unigram",
                vocab_size=size,
                hard_vocab_limit=False,
                character_coverage=coverage,
                byte_fallback=True,
                split_digits=True,
                normalization_rule_name="identity",
                remove_extra_whitespaces=False,
                add_dummy_prefix=True,
                shuffle_input_sentence=False,
                pad_id=PAD,
                unk_id=UNKNOWN,
                bos_id=BEGIN,
                eos_id=END,
                num_threads=_THREADS,
                minloglevel=2,
            )
        except RuntimeError as error:
            reason = str(error).split("] ")[-1].strip() or str(error)
            raise UserError(f"tokenizer.size={size} does not suit this text ({reason}); try another size") from None
        return cls(model.getvalue(), sampling)

    @classmethod
    def from_files(cls, files: Mapping[str, bytes], **options: Any) -> Subword:
        return cls(files[_FILE], **options)

    def files(self) -> dict[str, bytes]:
        return {_FILE: self._bytes}

    def __len__(self) -> int:
        return len(self._pieces)

    def encode(self, text: str) -> list[int]:
        return self._model.encode(normalise(text))

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        return self._model.encode([normalise(text) for text in texts])

    def resample(self, ids: Sequence[int], random: np.random.Generator, alpha: float) -> list[int]:
        """Each word is cut in one of its likeliest ways, with probability in proportion to P(way) ** alpha.

        Pieces never cross words, so drawing word by word equals drawing the sentence.
        """
        if alpha <= 0 or not ids:
            return list(ids)
        starts = [0, *(at for at, i in enumerate(ids) if at and self._starts_word[i]), len(ids)]
        words = [tuple(ids[start:stop]) for start, stop in pairwise(starts)]
        result: list[int] = []
        for word, draw in zip(words, random.random(len(words)).tolist(), strict=True):
            ways, upto = self._ways(word, alpha)
            result += ways[bisect(upto, draw)]
        return result

    def _ways(self, word: tuple[int, ...], alpha: float) -> tuple[list[list[int]], list[float]]:
        """The likeliest cuts of a word and their probabilities summed up; remembered, since words come again."""
        known = self._cuts.get((alpha, word))
        if known is None:
            ways = [list(word)]
            if len(word) <= _LONGEST_WORD and self._starts_word[word[0]] and not any(map(self._model.is_byte, word)):
                ways = self._model.nbest_encode(self.decode(word), nbest_size=_CANDIDATES)
            scores = np.array([sum(self._scores[i] for i in way) for way in ways])
            weights = np.exp(alpha * (scores - scores.max())).cumsum()
            known = ways, (weights / weights[-1]).tolist()[:-1]  # without the last, which is 1: nothing lies beyond it
            if len(self._cuts) >= _REMEMBERED:
                self._cuts.clear()
            self._cuts[alpha, word] = known
        return known

    def decode(self, ids: Sequence[int]) -> str:
        return self._model.decode([int(i) for i in ids if i > END])

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [self._pieces[i] for i in ids]

    def surfaces(self, ids: Sequence[int]) -> list[str]:
        return spell(self._parts[i] for i in ids)


def _choose(lines: Iterable[str], count: int, seed: int) -> list[str]:
    """A fair sample of a stream whose length nobody knows (reservoir sampling)."""
    random = python_random.Random(seed)
    chosen: list[str] = []
    for seen, line in enumerate(lines):
        if seen < count:
            chosen.append(line)
        elif (place := random.randrange(seen + 1)) < count:
            chosen[place] = line
    return chosen
