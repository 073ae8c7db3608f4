"""Makes and measures the calibration of a translator on translations of text with references."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regard.confidence.calibration import Calibration
from regard.confidence.fitting import Examples
from regard.confidence.reliability import Reliability, reliability
from regard.errors import UserError
from regard.task._base_translator import BaseTranslator

if TYPE_CHECKING:
    from regard.inspection.draw.canvas import Canvas

FOLDS = 5
"""Parts of the text; each is measured with a calibration made of the others."""
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Measured:
    """How well confidences agree with what is right."""

    words: Reliability
    sentences: Reliability

    def draw(self, title: str) -> Canvas:
        from regard.inspection.draw.reliability import draw_reliability

        return draw_reliability(
            title,
            {
                f"{name}: error {one.error:.3f}": [(some.confidence, some.right, some.size) for some in one.bins]
                for name, one in (("words", self.words), ("sentences", self.sentences))
            },
        )


def examples_of(
    translator: BaseTranslator,
    sources: Sequence[str],
    references: Sequence[str],
    source: str | None = None,
    target: str | None = None,
    progress: Progress | None = None,
) -> list[Examples]:
    """Translations of lines with the recipe's usual search, dealt out to FOLDS parts. Lines without text, and those
    that are translated in several parts, are left out."""
    told = translator.marks(sources, source, target)
    whole = [
        number
        for number, text in enumerate(sources)
        if references[number].strip() and len(translator.parts(text, told=told[number])) == 1
    ]
    settings, prefix = translator.recipe.decoding, told[0].prefix if told else ()
    ids = [translator.encode(sources[number], told[number]) for number in whole]
    batch = translator.default_batch_tokens()
    found = translator.search(
        ids,
        beam=settings.beam,
        length_penalty=settings.length_penalty,
        max_length=settings.max_length + len(prefix),
        batch_tokens=batch,
        progress=progress,
        prefix=prefix,
    )
    scores = translator.hypothesis_log_probs(ids, found, batch, None, len(prefix))
    folds = [Examples() for _ in range(FOLDS)]
    for place, (number, (hypothesis, *_), told_scores) in enumerate(zip(whole, found, scores, strict=True)):
        written = hypothesis.ids[len(prefix) :]
        tokenizer = translator.tokenizer.target
        text = tokenizer.decode(written).strip()
        surfaces = tokenizer.surfaces(written)
        folds[place % FOLDS].add(sources[number], text, surfaces, told_scores, references[number])
    return folds


def fit(folds: Sequence[Examples]) -> Calibration:
    """The calibration of all parts."""
    return joined(folds).fit()


def cross_validated(folds: Sequence[Examples]) -> Measured:
    """Every part with a calibration that was made of the others."""
    words: list[float] = []
    sentences: list[float] = []
    for number, part in enumerate(folds):
        if not part.sentences:
            raise UserError(f"a calibration needs more text than {sum(len(one.sentences) for one in folds)} sentences")
        others = joined([*folds[:number], *folds[number + 1 :]]).fit()
        of_words, of_sentences = part.confidences(others)
        words += of_words
        sentences += of_sentences
    whole = joined(folds)
    return Measured(reliability(words, whole.words_right), reliability(sentences, whole.sentences_right))


def measured(folds: Sequence[Examples], calibration: Calibration) -> Measured:
    """With a calibration that was made of other text."""
    whole = joined(folds)
    words, sentences = whole.confidences(calibration)
    return Measured(reliability(words, whole.words_right), reliability(sentences, whole.sentences_right))


def joined(folds: Sequence[Examples]) -> Examples:
    found = Examples()
    for one in folds:
        found.words += one.words
        found.words_right += one.words_right
        found.sentences += one.sentences
        found.sentences_right += one.sentences_right
    return found
