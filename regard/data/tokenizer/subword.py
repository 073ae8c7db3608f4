"""Subwords: a sentencepiece unigram model (Kudo 2018) with byte fallback for unseen characters.

Text is normalised before sentencepiece, which changes nothing itself, so any text decodes exactly.
"""

from __future__ import annotations

import io
import random as python_random
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

import sentencepiece

from regard.data.normalise import normalise
from regard.data.ragged import Sentences
from regard.data.tokenizer._base import SPACE, SPECIALS, Tokenizer, is_byte, spell
from regard.errors import UserError
from regard.special_tokens import BEGIN, END, PAD, UNKNOWN

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Subword"]

_FILE = "tokenizer.model"
_THREADS = 16  # constant, because the last digits of the learnt scores depend on it
_CANDIDATES = 16
_MOST_TEXT = 1 << 26  # characters; 200,000 lines usually have half as many


class Subword(Tokenizer):
    """Unigram subwords with byte fallback, so that nothing is unknown."""

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
        """Alpha of subword sampling in training; 0 is off."""
        self._pieces: list[str] = processor.id_to_piece(list(range(len(processor))))
        self._parts: list[str | int] = [
            int(piece[3:5], 16) if piece[:1] == "<" and processor.is_byte(i) else piece.replace(SPACE, " ")
            for i, piece in enumerate(self._pieces)
        ]
        self._tags = {i for i in range(len(SPECIALS), len(processor)) if processor.is_control(i)}
        for i in self._tags:
            self._parts[i] = ""
        self._known_ways: dict[float, tuple[Sentences, np.ndarray]] = {}
        self._parts[: len(SPECIALS)] = [""] * len(SPECIALS)

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
        tags: Sequence[str] = (),
    ) -> Subword:
        """Learns `size` pieces, or fewer if the text has no more, from at most `sample_lines` lines.

        `coverage` is the share of characters that get a piece of their own, besides all digits; the rest are spelled in
        bytes. `tags` are further tokens that no text is encoded to, even if it is spelled like one, and that decode to
        nothing.
        """
        _check_tags(tags)
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
                control_symbols=list(tags),
                required_chars=_digits(text),
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

    def resample(self, sentences: Sentences, seeds: np.ndarray, alpha: float) -> Sentences:
        """Draws a segmentation of each piece with probability proportional to P(segmentation) ** alpha.

        Kudo samples from all segmentations of a sentence. Here the boundaries of the best one stay, so that the
        segmentations of each piece are computed once, and a million pieces are drawn in one operation.
        """
        import numpy as np  # here, not above: it takes 0.1 s, and translating needs none

        from regard.data.shuffling import mixed

        if alpha <= 0:
            return sentences
        if alpha not in self._known_ways:
            self._known_ways[alpha] = self._ways(alpha)
        ways, upto = self._known_ways[alpha]
        lengths = np.diff(sentences.offsets)
        position = np.arange(len(sentences.ids)) - np.repeat(sentences.offsets[:-1], lengths)
        draw = mixed(np.repeat(mixed(seeds), lengths) + position.astype(np.uint64)) >> np.uint64(32)
        # The cumulative probabilities of piece `id` run from id to id + 1, so that one search finds all draws.
        chosen = np.searchsorted(upto, sentences.ids + draw * 2.0**-32, side="right")
        ids, parts = ways.gather(chosen)
        ends = np.concatenate([[0], parts.cumsum()])
        return Sentences(ids.astype(sentences.ids.dtype), ends[sentences.offsets])

    def _ways(self, alpha: float) -> tuple[Sentences, np.ndarray]:
        """The segmentations of each piece, and their cumulative probabilities, from id to id + 1 for piece `id`."""
        import numpy as np

        special = [i < len(SPECIALS) or i in self._tags or self._model.is_byte(i) for i in range(len(self))]
        ids = {piece: i for i, piece in enumerate(self._pieces) if not special[i]}
        log_probabilities = {piece: self._model.get_score(i) for piece, i in ids.items()}
        ways: list[list[int]] = []
        upto = []
        for i, piece in enumerate(self._pieces):
            cuts = [(0.0, [piece])] if special[i] else _cuts(piece, log_probabilities)
            ways += [[i]] if special[i] else [[ids[part] for part in cut] for _, cut in cuts]
            weights = np.exp([alpha * (score - cuts[0][0]) for score, _ in cuts]).cumsum()
            upto.append(i + weights / weights[-1])
        lengths = np.fromiter(map(len, ways), np.int64, len(ways))
        return Sentences.of_lengths(np.fromiter(chain.from_iterable(ways), np.int64), lengths), np.concatenate(upto)

    def decode(self, ids: Sequence[int]) -> str:
        return self._model.decode([int(i) for i in ids if i > END and int(i) not in self._tags])

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [self._pieces[i] for i in ids]

    def surfaces(self, ids: Sequence[int]) -> list[str]:
        return spell(self._parts[i] for i in ids)


def _digits(text: Iterable[str]) -> str:
    """All digits of every script of which the text has some, but for ASCII's, which are frequent in any case."""
    found = {character for line in text if not line.isascii() for character in line if character.isdecimal()}
    zeros = {ord(character) - unicodedata.decimal(character) for character in found if not character.isascii()}
    return "".join(chr(zero + i) for zero in sorted(zeros) for i in range(10))


def _check_tags(tags: Sequence[str]) -> None:
    for tag in tags:
        if not isinstance(tag, str) or not re.fullmatch(r"[!-~]{2,40}", tag) or tag in SPECIALS or "," in tag:
            raise UserError(f"tokenizer.tags: {tag!r} cannot be a tag; write 2 to 40 ASCII signs, such as >>de<<")
        if is_byte(tag):
            raise UserError(f"tokenizer.tags: {tag} stands for a byte; choose another tag")


def _cuts(text: str, log_probabilities: Mapping[str, float]) -> list[tuple[float, list[str]]]:
    """The most probable segmentations of a text, best first, with their log-probabilities."""
    best: list[list[tuple[float, list[str]]]] = [[(0.0, [])]]
    for end in range(1, len(text) + 1):
        found = [
            (score + log_probabilities[piece], [*before, piece])
            for start in range(end)
            if (piece := text[start:end]) in log_probabilities
            for score, before in best[start]
        ]
        best.append(sorted(found, key=lambda way: -way[0])[:_CANDIDATES])
    return best[-1]


def _choose(lines: Iterable[str], count: int, seed: int) -> list[str]:
    """A uniform sample of a stream (reservoir sampling), of at most `_MOST_TEXT` characters."""
    random = python_random.Random(seed)
    chosen: list[str] = []
    text = 0
    for seen, line in enumerate(lines):
        if seen < count and text + len(line) <= _MOST_TEXT:
            chosen.append(line)
            text += len(line)
            continue
        count = min(count, len(chosen))
        place = random.randrange(seen + 1)
        if place < count and text + len(line) - len(chosen[place]) <= _MOST_TEXT:
            text += len(line) - len(chosen[place])
            chosen[place] = line
    return chosen
