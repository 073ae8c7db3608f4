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
from regard.directions import NO_MARKS, Marks, direction, marks, sources_for, with_end
from regard.errors import UserError
from regard.hypothesis import Hypothesis
from regard.special_tokens import END
from regard.task._choosing import Choosing
from regard.task._one_or_many import one_or_many
from regard.task._search_variant import search_as, search_beginning, search_variant
from regard.task._sentence_boundaries import sentences
from regard.task._splitting import split_long
from regard.task._translation import Translation, TranslationOptions, check_options, joined

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from regard.confidence.calibration import Calibrations
    from regard.decoding.constraints import Constraint
    from regard.glossary import Glossary
    from regard.minimum_bayes_risk import MinimumBayesRisk
    from regard.reranking import Reranker
    from regard.task._continuation import Continuation
    from regard.task._generated import Score
    from regard.task._terms import TermEncoder
    from regard.translation_memory import TranslationMemory

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
    _terms: TermEncoder | None = None
    """Made when a glossary is first used."""
    folder: Path | None = None
    """The model folder, which may hold a calibration; None if it was not loaded from one."""
    _calibrations: Calibrations | None = None

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
        source: str | None = None,
        target: str | None = None,
        glossary: Glossary | Sequence[Glossary] | None = None,
        mbr: MinimumBayesRisk | None = None,
        rerank: Reranker | None = None,
        memory: TranslationMemory | None = None,
        prefix: str = "",
        doubt: bool = False,
        **further: Any,
    ) -> list[Translation]:
        choosing = Choosing(mbr, rerank, memory)
        settings = self.recipe.decoding
        width = settings.beam if beam is None else beam
        check_options(width, n_best, length_penalty, max_length, batch_tokens)
        variant = search_variant(settings, beam, n_best, **choosing.with_sampling(further))
        choosing.check(variant, prefix)
        if prefix and glossary is not None:
            raise UserError("a prefix and a glossary do not go together; leave out one of them")
        told = self.marks(texts, source, target)
        parts = [
            [(text, self.encode(text, told[number - 1]))]
            if choosing.is_exact(text)
            else self._encoded_parts(text, number, warn, told[number - 1])
            for number, text in enumerate(texts, 1)
        ]
        exact = [[choosing.exact(part, self, alignment) for part, _ in row] for row in parts]
        searched = [[part for part, known in zip(*rows) if not known] for rows in zip(parts, exact)]
        flat = [part for row in searched for part, _ in row]
        owners = [number for number, row in enumerate(searched) for _ in row]
        sources = [ids for row in searched for _, ids in row]
        told_parts = [one for one, row in zip(told, searched) for _ in row]
        tags = told[0].prefix if told else ()  # the same of all: it says the target language
        budget = self.default_batch_tokens() if batch_tokens is None else batch_tokens
        cancelled_parts = cancelled and (lambda: owned_by(cancelled(), owners))
        options: Any = {
            "beam": width,
            "n_best": choosing.candidates(n_best),
            "length_penalty": settings.length_penalty if length_penalty is None else length_penalty,
            "max_length": (settings.max_length if max_length is None else max_length) + len(tags),
            "batch_tokens": budget,
            "cancelled": cancelled_parts,
            "prefix": tags,
        }
        first = {at for at, owner in enumerate(owners) if not at or owners[at - 1] != owner} if prefix else set[int]()
        begin_with = [*tags, *self.tokenizer.target.encode(prefix)] if prefix else []
        near = choosing.neighbours(self, flat, told_parts)
        glossaries: list[Glossary] = []
        if glossary is not None:
            from regard.glossary import Glossary

            glossaries = [glossary] * len(texts) if isinstance(glossary, Glossary) else list(glossary)

        def search(options: dict[str, Any], progress: Progress | None) -> list[list[Hypothesis]]:
            placement = None
            if glossaries:
                from regard.task._term_placement import TermPlacement
                from regard.task._terms import TermEncoder

                if self._terms is None:
                    self._terms = TermEncoder(self.tokenizer.target)
                of_parts = [glossaries[number] for number in owners]
                placement = TermPlacement(self, self._terms, sources, flat, of_parts, told_parts, options, warn)
                options = options | {"attention_of": placement.with_terms()}
            if near is None:
                found = search_beginning(self, sources, first, begin_with, progress, options)
            else:
                found = self.search_with_memory(sources, near, progress=progress, **options)
            if placement:
                placement.improve(found)
            return found

        def decode(hypothesis: Hypothesis) -> str:
            return self.tokenizer.target.decode(hypothesis.ids[len(tags) :]).strip()

        found = search_as(variant, options, search, progress)
        found = choosing.ranked(self.recipe, flat, found, decode, (source, target), n_best)
        if progress and (known := sum(map(len, parts)) - len(flat)):
            progress(known)
        aligned = self._align(sources, found, told_parts, budget, cancelled_parts) if alignment else [None] * len(flat)
        made = [self._translation(*one, len(tags)) for one in zip(flat, found, aligned, strict=True)]
        if doubt:
            from regard.task._doubt import with_confidence, with_warnings

            spoken = self.languages(texts, source, target)
            unknown = [one for one, row in zip(spoken, exact) for known in row if not known]
            of_parts = [self.calibrations.for_direction(*one) for one in unknown]
            made = with_confidence(self, made, sources, found, of_parts, budget, cancelled_parts, len(tags))
        done = map(choosing.with_matches, made)
        whole = [joined(text, [known or next(done) for known in row]) for text, row in zip(texts, exact)]
        return with_warnings(whole, spoken, glossaries or [None] * len(whole)) if doubt else whole

    @overload
    def score(  # type: ignore[overload-overlap]
        self, sources: str, targets: str, *, source: str | None = None, target: str | None = None
    ) -> Score: ...
    @overload
    def score(
        self,
        sources: Iterable[str],
        targets: Iterable[str],
        *,
        source: str | None = None,
        target: str | None = None,
        batch_tokens: int | None = None,
        progress: Progress | None = None,
    ) -> list[Score]: ...
    def score(
        self,
        sources: Any,
        targets: Any,
        *,
        source: str | None = None,
        target: str | None = None,
        batch_tokens: int | None = None,
        progress: Progress | None = None,
    ) -> Any:
        """How likely given translations are, read by the model with teacher forcing; computed by torch.

        The sum is the `log_probability` that a search reports for the same tokens. A text is read as a whole, however
        long.

        Args:
            sources: A text, or an iterable of texts.
            targets: Its translation, or one for each text.
            source: The language of the sources, as in `translate`.
            target: The language of the translations, as in `translate`.
            batch_tokens: Tokens per batch.
            progress: Called with the number of pairs finished since the last call.

        Returns:
            A `Score`, or a list of them.
        """
        from regard.task._scoring import score_translations

        if isinstance(sources, str) and isinstance(targets, str):
            return score_translations(self, [sources], [targets], (source, target), batch_tokens, progress)[0]
        if isinstance(sources, str) or isinstance(targets, str):
            raise UserError("score: one text has one translation; give two texts, or two lists of them")
        return score_translations(self, sources, targets, (source, target), batch_tokens, progress)

    @property
    def calibrations(self) -> Calibrations:
        """What makes confidences of log-probabilities, read from the model folder on first use."""
        if self._calibrations is None:
            from regard.confidence.calibration import Calibrations

            self._calibrations = Calibrations.read(self.folder)
        return self._calibrations

    def languages(
        self, texts: Sequence[str], source: str | None = None, target: str | None = None
    ) -> list[tuple[str, str]]:
        """The direction of each text; empty where it is not known. Of several source languages one is detected."""
        start, to = direction(self.recipe, source, target)
        candidates = sources_for(self.recipe, to) if not start else ()
        if len(candidates) < 2:
            return [(start, to)] * len(texts)
        from regard.language_identification import likeliest

        return [(likeliest(text, candidates), to) for text in texts]

    def continuations(
        self, text: str, prefix: str = "", *, n_best: int = 5, source: str | None = None, target: str | None = None
    ) -> list[Continuation]:
        """Translations of one sentence that begin with given words and differ in the word after these.

        Args:
            text: The sentence.
            prefix: How the translation begins, in whole words; "" for nothing.
            n_best: Most translations, 1 to 32.
            source: The language of the text, as in `translate`.
            target: The language to translate to.

        Returns:
            The translations, best first; each has its `next_word`, which is "" where it ends after the prefix.
        """
        from regard.task._continuation import continuations

        return continuations(self, PlainText().accept(text), prefix, n_best, source, target)

    def marks(self, texts: Sequence[str], source: str | None = None, target: str | None = None) -> list[Marks]:
        """How the model is told the direction of each text.

        The language of a text that could be in several is detected, if the model needs to know it.
        """
        start, to = direction(self.recipe, source, target)
        stated = self.recipe.languages
        if start or (stated.source_tag == "none" and not stated.prefixes):
            return [marks(self.recipe, self.tokenizer, start, to)] * len(texts)
        from regard.language_identification import likeliest

        found = [likeliest(text, sources_for(self.recipe, to)) for text in texts]
        by_language = {one: marks(self.recipe, self.tokenizer, one, to) for one in set(found)}
        return [by_language[one] for one in found]

    def encode(self, text: str, told: Marks = NO_MARKS) -> list[int]:
        """The ids of a source text, as in training, with what tells the model the direction."""
        text = told.text_prefix + (plain(text) if self.recipe.data.plain_source else text)
        return [*told.before, *self.tokenizer.encode(text), *told.after]

    def source_row(self, ids: Sequence[int]) -> list[int]:
        """What the encoder reads: a source with END (`with_end`), unless the model was trained without."""
        return with_end(ids) if self.recipe.data.source_end or not ids else list(ids)

    def text_span(self, ids: Sequence[int], told: Marks) -> slice:
        """Which of a source's tokens are the text's own: those after its tags and its prefix, and before later tags."""
        start, end = len(told.before), len(ids) - len(told.after)
        if told.text_prefix:  # it ends at a space, which no token crosses
            start += len(self.tokenizer.encode(told.text_prefix.rstrip()))
        return slice(min(start, end), end)

    def parts(self, text: str, number: int = 1, warn: Warn | None = None, told: Marks = NO_MARKS) -> list[str]:
        """The pieces to translate separately: the text, its sentences if there are several, or parts of long ones."""
        return [part for part, _ in self._encoded_parts(text, number, warn, told)]

    def _encoded_parts(
        self, text: str, number: int, warn: Warn | None, told: Marks = NO_MARKS
    ) -> list[tuple[str, list[int]]]:
        """The parts and their ids."""
        if not text.strip():
            return []
        limit = self._longest_source()
        known: dict[str, list[int]] = {}

        def fits(part: str) -> bool:
            known[part] = self.encode(part, told)
            return len(self.source_row(known[part])) <= limit

        # Lines of corpora have one or two sentences. Given more, a model skips some.
        whole = sentences(text.strip())
        whole = whole if len(whole) > 2 else [text]
        parts = [part for sentence in whole for part in split_long(sentence, fits)]
        if len(parts) > len(whole) and warn:
            room = limit - len(with_end([*told.before, *told.after])) + (not self.recipe.data.source_end)
            warn(f"text {number} is longer than the model's {room} tokens and was split into {len(parts)} parts")
        return [(part, known[part] if part in known else self.encode(part, told)) for part in parts]

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
        attention_of: Collection[int] = (),
    ) -> list[list[Hypothesis]]:
        """The `n_best` hypotheses for each source, best first, in the order of the sources; batched by length.

        END is added to sources that do not contain it (`source_row`). All hypotheses begin with `prefix`,
        whose probability does not count. Those of the sources in `attention_of` may have their attention, where it
        costs less than to compute it afterwards.
        """

    @abstractmethod
    def search_from(
        self, sources: Sequence[list[int]], prefixes: Sequence[list[int]], **options: Any
    ) -> list[list[Hypothesis]]:
        """As `search`, for hypotheses that begin with these tokens, whose probability counts except that of the common
        prefix of the options. A score that takes time of its own is left out (NaN): `complete_scores` computes it."""

    @abstractmethod
    def complete_scores(self, pairs: Sequence[tuple[list[int], Hypothesis]], **options: Any) -> None:
        """Computes the scores that `search_from` left out, of pairs of source and hypothesis."""

    @abstractmethod
    def next_tokens(self, source: list[int], written: list[int], count: int) -> list[int]:
        """The tokens that most likely follow those of a translation (with what says its language), best first,
        END and the other special tokens excepted."""

    @abstractmethod
    def scored_whole(self, source: list[int], written: list[int], first: int, length_penalty: float) -> Hypothesis:
        """These tokens and END as a finished hypothesis; the first ones, which say the language, do not count."""

    @abstractmethod
    def search_with_terms(
        self, sources: Sequence[list[int]], constraints: Sequence[list[Constraint]], terms: TermEncoder, **options: Any
    ) -> list[list[Hypothesis]]:
        """As `search`, for hypotheses that have the terms of each source."""

    @abstractmethod
    def search_with_memory(
        self, sources: Sequence[list[int]], pairs: Sequence[Sequence[tuple[list[int], str]]], **options: Any
    ) -> list[list[Hypothesis]]:
        """As `search`, leaning on the translations of similar texts: (source tokens, translation) for each source."""

    @abstractmethod
    def token_log_probs(
        self,
        sources: Sequence[list[int]],
        targets: Sequence[list[int]],
        *,
        prefix: Sequence[int] = (),
        batch_tokens: int = 4096,
        progress: Progress | None = None,
    ) -> list[list[float]]:
        """The log-probability of each token of each target, which ends with END if its end counts, after `prefix`."""

    def hypothesis_log_probs(
        self,
        sources: Sequence[list[int]],
        found: Sequence[list[Hypothesis]],
        batch_tokens: int,
        cancelled: Cancelled | None,
        first: int = 0,
    ) -> Iterator[list[float]]:
        """`token_log_probs` of every hypothesis of every source, one after the other; END counts if it was reached.

        The `first` tokens are left out: they say the target language. Empty for what was cancelled.
        """
        lost = cancelled() if cancelled else ()
        owners = [number for number, row in enumerate(found) for _ in row]
        written = [[*one.ids, END][: len(one.ids) + one.finished] for row in found for one in row]
        kept = [at for at, ids in enumerate(written) if len(ids) > first and owners[at] not in lost]
        scores: list[list[float]] = [[] for _ in written]
        if kept:
            given = [sources[owners[at]] for at in kept], [written[at][first:] for at in kept]
            prefix = written[kept[0]][:first]
            for at, told in zip(kept, self.token_log_probs(*given, prefix=prefix, batch_tokens=batch_tokens)):
                scores[at] = told
        return iter(scores)

    @abstractmethod
    def token_attention(
        self,
        sources: Sequence[list[int]],
        found: Sequence[list[Hypothesis]],
        batch_tokens: int,
        cancelled: Cancelled | None,
        quick: bool = False,
    ) -> Iterator[np.ndarray]:
        """The attention (target tokens, source tokens) of every hypothesis of every source, one after the other.

        It may have further rows and columns, and is empty for what was cancelled. `quick`: where each layer takes time
        of its own, that of the last one.
        """

    def _align(
        self,
        sources: list[list[int]],
        found: list[list[Hypothesis]],
        told: list[Marks],
        batch_tokens: int,
        cancelled: Cancelled | None,
        quick: bool = False,
    ) -> list[list[np.ndarray]]:
        """Word-level attention of every hypothesis of every source. Language tags belong to no word."""
        from regard.word_alignment import word_matrix

        from_words, to_words = self.tokenizer.word_index, self.tokenizer.target.word_index
        matrices = self.token_attention(sources, found, batch_tokens, cancelled, quick)
        aligned: list[list[np.ndarray]] = []
        for source, hypotheses, one_told in zip(sources, found, told, strict=True):
            own, first = self.text_span(source, one_told), len(one_told.prefix)
            words = from_words(source[own])
            aligned.append(
                [
                    word_matrix(weights[first:, own.start :], to_words(one.ids[first:]), words)
                    if weights.size
                    else weights
                    for one, weights in zip(hypotheses, matrices)
                ]
            )
        return aligned

    def _translation(
        self, source: str, hypotheses: list[Hypothesis], attention: list[np.ndarray] | None, first: int
    ) -> Translation:
        """`first` is the number of tokens that say the target language."""
        tokenizer = self.tokenizer.target
        made = [
            Translation(
                source,
                tokenizer.decode(h.ids[first:]).strip(),
                h.score,
                h.log_probability,
                tokenizer.pieces(h.ids[first:]),
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
