"""What translators of all engines share: texts to sentences to ids and back. A subclass searches. Imports no torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack, overload

from regard.config import Recipe
from regard.data.input._plain_text import PlainText
from regard.data.normalise import plain
from regard.data.tokenizer._base import Tokenizer
from regard.decoding.cancellation import Cancelled
from regard.hypothesis import Hypothesis
from regard.special_tokens import END
from regard.task._one_or_many import one_or_many
from regard.task._splitting import sentences, split_long
from regard.task._translation import Translation, TranslationOptions, check_options, joined

if TYPE_CHECKING:
    import numpy as np

NOTHING = Hypothesis([], 0.0, 0.0, finished=False)
"""The result for a cancelled sentence."""
Warn = Callable[[str], None]
Progress = Callable[[int], None]


class BaseTranslator(ABC):
    """A translation model with its tokenizer and recipe, whatever computes it."""

    recipe: Recipe
    tokenizer: Tokenizer
    engine: str
    """What computes the translations: "torch" or "ctranslate2"."""

    @overload
    def translate(self, texts: str, **options: Unpack[TranslationOptions]) -> Translation: ...  # type: ignore[overload-overlap]
    @overload
    def translate(self, texts: Iterable[str], **options: Unpack[TranslationOptions]) -> list[Translation]: ...
    def translate(self, texts: Any, **options: Unpack[TranslationOptions]) -> Any:
        """Translates a text, or many into a list in the same order.

        An empty text stays empty; one too long for the model is split (see `warn`).

        Args:
            texts: A text, or an iterable of texts.
            options: See `TranslationOptions`.

        Returns:
            A `Translation`, or a list of them.
        """
        return one_or_many(texts, PlainText(), lambda accepted: self._translate(accepted, **options))

    def _translate(
        self,
        texts: list[str],
        *,
        beam: int | None = None,
        n_best: int = 1,
        length_penalty: float | None = None,
        max_length: int | None = None,
        batch_tokens: int | None = None,
        alignment: bool = False,
        warn: Warn | None = None,
        progress: Progress | None = None,
        cancelled: Cancelled | None = None,
    ) -> list[Translation]:
        settings = self.recipe.decoding
        width = settings.beam if beam is None else beam
        check_options(width, n_best, length_penalty, max_length, batch_tokens)
        parts = [self._encoded_parts(text, number, warn) for number, text in enumerate(texts, 1)]
        flat = [part for row in parts for part, _ in row]
        owners = [number for number, row in enumerate(parts) for _ in row]
        sources = [ids for row in parts for _, ids in row]
        budget = self.default_batch_tokens() if batch_tokens is None else batch_tokens
        cancelled_parts = cancelled and (lambda: owned_by(cancelled(), owners))
        found = self.search(
            sources,
            beam=width,
            n_best=n_best,
            length_penalty=settings.length_penalty if length_penalty is None else length_penalty,
            max_length=settings.max_length if max_length is None else max_length,
            batch_tokens=budget,
            progress=progress,
            cancelled=cancelled_parts,
        )
        aligned = self._align(sources, found, budget, cancelled_parts) if alignment else [None] * len(flat)
        done = iter(zip(flat, found, aligned, strict=True))
        return [joined(text, [self._translation(*next(done)) for _ in row]) for text, row in zip(texts, parts)]

    def encode(self, text: str) -> list[int]:
        """The ids of a source text, as in training."""
        return self.tokenizer.encode(plain(text) if self.recipe.data.plain_source else text)

    def source_row(self, ids: Sequence[int]) -> list[int]:
        """What the encoder reads: the ids of a source text, and END unless the model was trained without it."""
        return [*ids, END] if self.recipe.data.source_end or not ids else list(ids)

    def parts(self, text: str, number: int = 1, warn: Warn | None = None) -> list[str]:
        """The pieces to translate separately: the text, its sentences if there are several, or parts of long ones."""
        return [part for part, _ in self._encoded_parts(text, number, warn)]

    def _encoded_parts(self, text: str, number: int, warn: Warn | None) -> list[tuple[str, list[int]]]:
        """The parts and their ids."""
        if not text.strip():
            return []
        limit = self._longest_source() - 1  # END
        known: dict[str, list[int]] = {}

        def fits(part: str) -> bool:
            known[part] = self.encode(part)
            return len(known[part]) <= limit

        # Lines of corpora have one or two sentences. Given more, a model skips some.
        whole = sentences(text.strip())
        whole = whole if len(whole) > 2 else [text]
        parts = [part for sentence in whole for part in split_long(sentence, fits)]
        if len(parts) > len(whole) and warn:
            warn(f"text {number} is longer than the model's {limit} tokens and was split into {len(parts)} parts")
        return [(part, known[part] if part in known else self.encode(part)) for part in parts]

    def _longest_source(self) -> int:
        """In tokens, END included: the recipe's limit, or fewer if learned positions end before it."""
        stem = self.recipe.model.get("stem")
        position = stem.get("position") if isinstance(stem, Mapping) else None
        table: dict[str, Any] = dict(position) if isinstance(position, Mapping) else {"kind": position}
        limit = self.recipe.data.max_length
        return min(limit, table.get("length", 512)) if table["kind"] == "learned" else limit

    @abstractmethod
    def default_batch_tokens(self) -> int:
        """Tokens per batch where the caller states none."""

    @abstractmethod
    def search(
        self,
        sources: Sequence[list[int]],
        *,
        beam: int,
        n_best: int = 1,
        length_penalty: float = 1.0,
        max_length: int = 256,
        batch_tokens: int = 4096,
        progress: Progress | None = None,
        cancelled: Cancelled | None = None,
        prefix: Sequence[int] = (),
    ) -> list[list[Hypothesis]]:
        """The `n_best` hypotheses for each source, best first, in the order of the sources; batched by length.

        All begin with `prefix`, whose probability does not count.
        """

    @abstractmethod
    def token_attention(
        self,
        sources: Sequence[list[int]],
        found: Sequence[list[Hypothesis]],
        batch_tokens: int,
        cancelled: Cancelled | None,
    ) -> Iterator[np.ndarray]:
        """The attention (target tokens, source tokens) of every hypothesis of every source, one after the other.

        It may have further rows and columns, and is empty for what was cancelled.
        """

    def _align(
        self, sources: list[list[int]], found: list[list[Hypothesis]], batch_tokens: int, cancelled: Cancelled | None
    ) -> list[list[np.ndarray]]:
        """Word-level attention of every hypothesis of every source."""
        from regard.word_alignment import word_matrix

        word = self.tokenizer.word_index
        matrices = self.token_attention(sources, found, batch_tokens, cancelled)
        return [
            [
                word_matrix(weights, word(one.ids), word(source)) if weights.size else weights
                for one, weights in zip(hypotheses, matrices)
            ]
            for source, hypotheses in zip(sources, found, strict=True)
        ]

    def _translation(
        self, source: str, hypotheses: list[Hypothesis], attention: list[np.ndarray] | None
    ) -> Translation:
        made = [
            Translation(
                source,
                self.tokenizer.decode(h.ids).strip(),
                h.score,
                h.log_probability,
                self.tokenizer.pieces(h.ids),
                _links(attention[i]) if attention else None,
                attention[i] if attention else None,
                h.finished,
            )
            for i, h in enumerate(hypotheses)
        ]
        return replace(made[0], alternatives=made[1:])


def _links(attention: np.ndarray) -> list[tuple[int, int]]:
    from regard.word_alignment import links

    return links(attention)


def owned_by(cancelled: Collection[int], owners: Sequence[int]) -> set[int]:
    """The parts that belong to cancelled texts."""
    return {number for number, owner in enumerate(owners) if owner in cancelled} if cancelled else set()


def without_cancelled(batches: Iterable[list[int]], cancelled: Cancelled | None) -> Iterator[list[int]]:
    """Batches without what is cancelled by the time they are due."""
    for indexes in batches:
        lost = cancelled() if cancelled else ()
        if left := [index for index in indexes if index not in lost]:
            yield left
