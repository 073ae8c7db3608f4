"""Record what is near: the training examples whose words are nearest to one word of a translation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from regard.directions import Marks
from regard.errors import UserError
from regard.inspection.trace.base import SOURCE, Side
from regard.inspection.trace.near import Near, Neighbour
from regard.inspection.word_index import default_path, read_index, sentence_states, word_states

if TYPE_CHECKING:
    from regard.inspection.trace.translation import TranslationTrace
    from regard.inspection.word_index import WordIndex
    from regard.task.translate import Translator

COUNT = 10


def near(
    translator: Translator, trace: TranslationTrace, told: Marks, side: str, position: int | None, path: str = ""
) -> Near:
    """The neighbours of one word, by default of the last; without a path those in the index of the cache."""
    index = open_index(translator, path)
    text: Side = trace.source if side == SOURCE else trace.target
    if not text.words:
        raise UserError("there is no word to look for: the translation is empty")
    place = len(text.words) - 1 if position is None else position
    if not 0 <= place < len(text.words):
        raise UserError(f"position {place}: the {side} has the words 0 to {len(text.words) - 1}")
    source = translator.encode(trace.source.text, told)
    written = [token for token, _ in zip(trace.ids[len(told.prefix) :], trace.target.word_of[len(told.prefix) :])]
    (states,) = sentence_states(translator, [source], [written], told)
    span = translator.text_span(source, told) if side == SOURCE else slice(0, len(written))
    tags = span.start if side == SOURCE else len(told.prefix)
    vectors = word_states(states[side][span], text.word_of[tags:], len(text.words))
    found = [
        Neighbour(similarity, word, index.sources[sentence], index.targets[sentence])
        for similarity, sentence, word in index.nearest(side, vectors[place], COUNT)
    ]
    return Near(side, place, text.words[place], len(index.sources), found)


def open_index(translator: Translator, path: str = "") -> WordIndex:
    """The index at a path, or the model's own in the cache."""
    file = Path(path) if path else default_path(translator.model)
    if not file.is_file():
        where = f"{file}: " if path else ""
        raise UserError(
            f"{where}there is no index of this model yet; make one from its training text: "
            "regard index MODEL --source FILE --target FILE"
        )
    return read_index(file, translator.model)
