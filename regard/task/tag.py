"""Tagging: words in, a tag for each and the spans they form out (named entities, DNA regions)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, overload

import torch

from regard.config import Recipe
from regard.data.codec import Pair
from regard.data.examples import Coded
from regard.data.format._base import Example
from regard.data.input._plain_text import PlainText
from regard.data.input.text import Text
from regard.data.target.tags import Tags
from regard.data.word_spans import word_spans
from regard.evaluation.entities import entities, entity_scores
from regard.evaluation.labels import accuracy
from regard.task._base import Progress
from regard.task._examples import ExampleTask
from regard.task._one_or_many import one_or_many
from regard.types import Better, Validation

if TYPE_CHECKING:
    from regard.inspection.trace.text import TextTrace

__all__ = ["Tagger"]

Words = list[str]
Found = tuple[list[str], list[float]]
"""Tags and their probabilities."""


@dataclass
class Span:
    """A tagged span of a text, `text[start:stop]`."""

    kind: str
    text: str
    start: int
    stop: int
    probability: float
    """The lowest probability of its words."""


@dataclass
class Tagging:
    """A text, its words with their tags, and their spans; `str()` gives the text with spans in brackets."""

    text: str
    words: Words
    tags: list[str]
    probabilities: list[float]
    """The probability of each word's tag."""
    spans: list[Span]

    def __str__(self) -> str:
        parts, done = [], 0
        for span in self.spans:
            parts += [self.text[done : span.start], f"[{span.kind} {span.text}]"]
            done = span.stop
        return "".join([*parts, self.text[done:]])


class Tagger(ExampleTask):
    """A tagging model with its tokenizer and tags. Long texts are tagged in pieces, so nothing is cut off."""

    usual: ClassVar[dict[str, Any]] = {"kind": "tagger"}
    target: ClassVar[str] = "tags"
    unit: ClassVar[str] = "words"
    usage: ClassVar[str] = "tag {model} '...'"
    scores: ClassVar[dict[str, Better]] = {
        "f1": "higher",
        "precision": "higher",
        "recall": "higher",
        "accuracy": "higher",
        "loss": "lower",
    }
    public: ClassVar[tuple[str, ...]] = ("names",)

    pair: Pair

    @property
    def text_input(self) -> Text:
        reader = self.pair.input
        assert isinstance(reader, Text)
        return reader

    @property
    def names(self) -> list[str]:
        """The tags that the model knows."""
        target = self.pair.target
        assert isinstance(target, Tags)
        return target.labels.names

    @overload
    def tag(self, texts: str, progress: Progress | None = None) -> Tagging: ...  # type: ignore[overload-overlap]
    @overload
    def tag(self, texts: Iterable[str | Sequence[str]], progress: Progress | None = None) -> list[Tagging]: ...
    def tag(self, texts: Any, progress: Progress | None = None) -> Any:
        """Tags the words of a text, or of many into a list.

        Args:
            texts: A text, or an iterable of texts, each of which may also be a list of words.
            progress: Called with the number of inputs finished since the last call.

        Returns:
            A `Tagging`, or a list of them.
        """
        return one_or_many(texts, self.pair.input, lambda raws: self._tag(raws, progress))

    def _tag(self, raws: Sequence[str | Words], progress: Progress | None) -> list[Tagging]:
        cut = [self._words(raw) for raw in raws]
        found = self._tagged([words for _, words, _ in cut], progress)
        return [_tagging(*parts, *tags) for parts, tags in zip(cut, found)]

    def inspect(self, text: str, *, name: str = "") -> TextTrace:
        """Tags one text and returns a trace of what the model computed.

        Args:
            text: The text.
            name: The name of the model in pictures.

        Returns:
            The trace.
        """
        from regard.inspection.record.tag import record_tagging

        return record_tagging(self, PlainText().accept(text), name)

    def judge(self, valid: Sequence[Example]) -> Validation:
        target = self.pair.target
        assert isinstance(target, Tags)
        for name in sorted({tag for example in valid for tag in example.target}):
            target.labels.id(name)  # refuses tags that are not in the training data
        truth = [list(example.target) for example in valid]
        predicted = [tags for tags, _ in self._tagged([example.input for example in valid])]
        scores = entity_scores(predicted, truth)
        flat = [[tag for tags in side for tag in tags] for side in (predicted, truth)]
        scores["accuracy"] = accuracy(*flat)
        scores["loss"] = self.loss(self.pieces(self.recipe, self.pair, valid))
        return Validation(scores, self.samples([self._shown(*each) for each in zip(valid, predicted, truth)]))

    def inputs(self, valid: Sequence[Example]) -> list[str]:
        """Texts, which `tag` splits into words again."""
        return [self.text_input.tokenizer.between.join(example.input) for example in valid]

    @classmethod
    def epochs(cls, recipe: Recipe, pair: Pair, examples: Sequence[Example]) -> Callable[[int], Sequence[Coded]]:
        return super().epochs(recipe, pair, cls.pieces(recipe, pair, examples))

    @classmethod
    def pieces(cls, recipe: Recipe, pair: Pair, examples: Sequence[Example]) -> list[Example]:
        """The examples, split where they are longer than the recipe allows."""
        return [
            Example(words[part], tags[part])
            for words, tags in examples
            for part in _parts(pair.input, words, recipe.data.max_length)
        ]

    @torch.inference_mode()
    def _tagged(self, sentences: Sequence[Words], progress: Progress | None = None) -> list[Found]:
        reader = self.text_input
        owners: list[int] = []
        pieces: list[Words] = []
        for number, words in enumerate(sentences):
            for part in _parts(reader, words, self.recipe.data.max_length):
                owners.append(number)
                pieces.append(words[part])
        found: dict[int, Found] = {}
        for indexes, source, mask in self.batches(pieces, progress):
            positions = [reader.word_positions(pieces[i]) for i in indexes]
            tagged = torch.zeros_like(mask, device="cpu")
            for row, where in enumerate(positions):
                tagged[row, where] = True
            labels, sure = self.model.decide(self.model(source, mask), tagged.to(self.device))
            labels, sure = labels.cpu(), sure.cpu()
            for row, (index, where) in enumerate(zip(indexes, positions)):
                found[index] = [self.names[i] for i in labels[row, where].tolist()], sure[row, where].tolist()
        result: list[Found] = [([], []) for _ in sentences]
        for index, owner in enumerate(owners):
            result[owner][0].extend(found[index][0])
            result[owner][1].extend(found[index][1])
        return result

    def _words(self, raw: str | Words) -> tuple[str, Words, list[int]]:
        """The text, its words and the start of each."""
        reader = self.text_input
        between = reader.tokenizer.between
        if isinstance(raw, str):
            if between:
                spans = word_spans(raw)
            else:
                reader.tokenizer.encode(raw)  # refuses letters outside the alphabet
                spans = [(i, i + 1) for i, letter in enumerate(raw) if not letter.isspace()]
            return raw, [raw[start:stop] for start, stop in spans], [start for start, _ in spans]
        starts, at = [], 0
        for word in raw:
            starts.append(at)
            at += len(word) + len(between)
        return between.join(raw), list(raw), starts

    def _shown(self, example: Example, predicted: list[str], truth: list[str]) -> tuple[str, str, str]:
        text, words, starts = self._words(list(example.input))
        sure = [1.0] * len(words)
        marked = [str(_tagging(text, words, starts, tags, sure)) for tags in (predicted, truth)]
        return text, marked[0], marked[1]


def _tagging(text: str, words: Words, starts: list[int], tags: list[str], probabilities: list[float]) -> Tagging:
    spans = []
    for kind, first, after in entities(tags):
        start, stop = starts[first], starts[after - 1] + len(words[after - 1])
        spans.append(Span(kind, text[start:stop], start, stop, min(probabilities[first:after])))
    return Tagging(text, words, tags, probabilities, spans)


def _parts(reader: Any, words: Sequence[str], longest: int) -> list[slice]:
    """Pieces of at most `longest` tokens; a single longer word is a piece of which the first tokens count."""
    parts, start, size = [], 0, 0
    for number, ids in enumerate(reader.words(words)):
        if number > start and size + len(ids) > longest:
            parts.append(slice(start, number))
            start, size = number, 0
        size += len(ids)
    return [*parts, slice(start, len(words))] if len(words) else parts
