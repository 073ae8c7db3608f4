"""Filling blanks: a text with blanks in, the most probable words out. Such models are mainly for fine-tuning."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, overload

import numpy as np
import torch

from regard.config import Recipe
from regard.data.codec import Pair
from regard.data.examples import Coded
from regard.data.format._base import Example
from regard.data.input._plain_text import PlainText
from regard.data.input.text import Text
from regard.data.target.masked import Masked
from regard.data.tokenizer._base import Tokenizer
from regard.errors import UserError
from regard.task._examples import ExampleTask
from regard.task._one_or_many import one_or_many
from regard.types import END, UNKNOWN, Better, Validation

if TYPE_CHECKING:
    from regard.inspection.trace.text import TextTrace

__all__ = ["Filler"]

BLANK = re.compile(r"(?<!\w)_+(?!\w)")
"""One or more underscores that are not part of a word."""
STAND_IN = "\ufffd"


@dataclass
class Candidate:
    """A token that may fill a blank."""

    word: str
    probability: float


@dataclass
class Filled:
    """A text with its blanks filled, and the candidates; `str()` gives the text."""

    text: str
    blanks: list[list[Candidate]]
    """Candidates for each blank, most probable first."""

    def __str__(self) -> str:
        return self.text


class Filler(ExampleTask):
    """A masked language model with its tokenizer. A blank is one token: a whole word, if the vocabulary has it.

    It is written `_` or, where the model has a mask token of its own, as that: `[MASK]`, `<mask>`.
    """

    usual: ClassVar[dict[str, Any]] = {"kind": "masked_language_model"}
    target: ClassVar[str] = "masked"
    unit: ClassVar[str] = "hidden tokens"
    usage: ClassVar[str] = "fill {model} 'one _ two'"
    scores: ClassVar[dict[str, Better]] = {"loss": "lower", "accuracy": "higher"}
    public: ClassVar[tuple[str, ...]] = ("tokenizer",)

    pair: Pair

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the model."""
        return self._reader.tokenizer

    @property
    def _reader(self) -> Text:
        reader = self.pair.input
        assert isinstance(reader, Text)
        return reader

    @property
    def mask(self) -> int:
        """The token in the place of a blank."""
        target = self.pair.target
        assert isinstance(target, Masked)
        return target.mask

    def blanks(self, text: str) -> list[re.Match[str]]:
        """The blanks of a text."""
        return list(self._blank.finditer(text))

    @cached_property
    def _blank(self) -> re.Pattern[str]:
        if self.mask == UNKNOWN:
            return BLANK
        return re.compile(f"{BLANK.pattern}|{re.escape(self.tokenizer.pieces([self.mask])[0])}")

    @overload
    def fill(self, texts: str, top: int = 5) -> Filled: ...  # type: ignore[overload-overlap]
    @overload
    def fill(self, texts: Iterable[str], top: int = 5) -> list[Filled]: ...
    def fill(self, texts: Any, top: int = 5) -> Any:
        """Fills the blanks (`_`, or the model's own mask token) of a text, or of many into a list.

        Args:
            texts: A text, or an iterable of texts.
            top: Candidates per blank.

        Returns:
            A `Filled`, or a list of them.
        """
        return one_or_many(texts, PlainText(), lambda raws: self._fill(raws, top))

    @torch.inference_mode()
    def _fill(self, texts: Sequence[str], top: int) -> list[Filled]:
        result = []
        for text in texts:
            ids, places = self.hidden(text)
            source = torch.tensor([ids], device=self.device)
            where = torch.tensor([places], device=self.device)
            logits = self.model(source, torch.ones_like(source, dtype=torch.bool), where)[0].float()
            blanks = [
                self._candidates(row, self._opens(text, blank), top) for row, blank in zip(logits, self.blanks(text))
            ]
            result.append(Filled(self._filled(text, blanks), blanks))
        return result

    def inspect(self, text: str, *, name: str = "") -> TextTrace:
        """Fills the blanks of one text and returns a trace of what the model computed.

        Args:
            text: The text.
            name: The name of the model in pictures.

        Returns:
            The trace.
        """
        from regard.inspection.record.fill import record_filling

        return record_filling(self, PlainText().accept(text), name)

    def hidden(self, text: str) -> tuple[list[int], list[int]]:
        """The ids of a text with its blanks masked, and their positions."""
        ids: list[int] = []
        places, done = [], 0
        for blank in self.blanks(text):
            ids += self._ids(text, done, blank.start())
            places.append(len(ids))
            ids.append(self.mask)
            done = blank.end()
        if not places:
            raise UserError("there is no blank in the text; write _ where a word is wanted")
        ids += self._ids(text, done, len(text))
        if len(ids) > self.recipe.data.max_length:
            raise UserError(
                f"the text has {len(ids)} tokens, but this model reads {self.recipe.data.max_length}; "
                "write less around the blank"
            )
        if self._reader.enclosed:
            return self._reader.enclose(ids).tolist(), [place + 1 for place in places]
        return ids, places

    def _ids(self, text: str, start: int, stop: int) -> list[int]:
        part = text[start:stop]
        if self.mask != UNKNOWN:
            # As in RoBERTa's pre-training: a space before the mask belongs to it, and what follows is by itself.
            return self.tokenizer.encode(part if stop == len(text) else part.rstrip())
        if start == 0 or part[:1].isspace() or not part:
            return self.tokenizer.encode(part)
        # Text right after a blank is tokenised as after a word: a stand-in is encoded with it and removed again.
        ids = self.tokenizer.encode(STAND_IN + part)
        written = ""
        for count, (token, surface) in enumerate(zip(ids, self.tokenizer.surfaces(ids)), 1):
            written += surface
            if token == UNKNOWN or STAND_IN in written:
                return ids[count:]
        return ids

    def _opens(self, text: str, blank: re.Match[str]) -> bool:
        """Whether a blank begins a word, for tokenizers that mark word boundaries."""
        before = text[: blank.start()]
        return bool(self.tokenizer.between) and (before[-1].isspace() if before else self.tokenizer.drops_first_space)

    def _candidates(self, logits: torch.Tensor, opens: bool, top: int) -> list[Candidate]:
        """The most probable tokens; at the start of a word only those that begin one, if there are any."""
        probabilities, order = logits.softmax(-1).sort(descending=True)
        fitting: list[Candidate] = []
        others: list[Candidate] = []
        for token, probability in zip(order.tolist(), probabilities.tolist()):
            surface = self.tokenizer.surfaces([token])[0] if token > END else ""
            if surface.strip() and "\ufffd" not in surface:
                kept = fitting if not opens or surface[0] == " " else others
                kept.append(Candidate(surface.strip(), probability))
            if len(fitting) >= top:
                break
        return (fitting or others)[:top]

    def _filled(self, text: str, blanks: list[list[Candidate]]) -> str:
        words = iter(blanks)
        return self._blank.sub(lambda found: (best := next(words)) and best[0].word or found[0], text)

    def inputs(self, valid: Sequence[Example]) -> list[str]:
        """Texts with a blank in place of the word in the middle."""
        found = []
        for text, _ in valid:
            words = text.split() if isinstance(text, str) else list(text)
            words[len(words) // 2 : len(words) // 2 + 1] = ["_"]
            found.append(" ".join(words))
        return found

    @torch.inference_mode()
    def judge(self, valid: Sequence[Example]) -> Validation:
        """Loss and accuracy on masked tokens, which are the same ones every time."""
        total, right, units = 0.0, 0, 0
        shown: dict[int, tuple[str, str, str]] = {}
        for indexes, batch in self.coded_batches(valid):
            source, places, was = self.model.hide(batch.source, batch.target_mask)
            logits = self.model(source, batch.source_mask, places).float()
            guess, real = logits.argmax(-1), batch.target_mask
            total -= float(logits.log_softmax(-1).gather(2, was[..., None])[..., 0][real].sum())
            right += int((guess == was)[real].sum())
            units += batch.units
            guessed = source.scatter(1, places, torch.where(real, guess, source.gather(1, places)))
            for row, index in enumerate(indexes):
                shown[index] = self._text(source[row]), self._text(guessed[row]), self._text(batch.source[row])
        scores = {"loss": total / max(1, units), "accuracy": 100 * right / max(1, units)}
        return Validation(scores, self.samples([shown[i] for i in sorted(shown)]))

    def _text(self, ids: torch.Tensor) -> str:
        """The text of some ids, with `_` for masked tokens."""
        tokens = ids.tolist()
        parts = zip(tokens, self.tokenizer.surfaces(tokens))
        return "".join(" _" if token == self.mask else surface for token, surface in parts).strip()

    @classmethod
    def epochs(cls, recipe: Recipe, pair: Pair, examples: Sequence[Example]) -> Callable[[int], Sequence[Coded]]:
        """Long lines are split into several examples, so that all of their text is used."""
        reader, longest = pair.input, recipe.data.max_length
        assert isinstance(reader, Text)
        lines = (reader.bare(reader.encode(example.input)) for example in examples)
        parts = (ids[at : at + longest] for ids in lines for at in range(0, len(ids), longest))
        coded = [_hidden(pair, reader.enclose(part)) for part in parts]
        return lambda epoch: coded

    @classmethod
    def coded(cls, recipe: Recipe, pair: Pair, example: Example) -> Coded:
        reader = pair.input
        assert isinstance(reader, Text)
        return _hidden(pair, reader.cut(reader.encode(example.input), recipe.data.max_length))


def _hidden(pair: Pair, ids: np.ndarray) -> Coded:
    target = pair.target
    assert isinstance(target, Masked)
    return Coded(ids, *target.of(ids))
