"""Classification: anything in, the name of its class out, with how sure the model is of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, overload

import torch

from regard.data.codec import Pair
from regard.data.format._base import Example
from regard.data.input._accepted import InputLike
from regard.data.input._base import Raw
from regard.data.input.text import PlainText
from regard.data.target.label import Label
from regard.errors import UserError
from regard.evaluation.labels import accuracy, macro_f1
from regard.task._base import ExampleTask, Progress
from regard.task._one_or_many import one_or_many
from regard.types import Validation

if TYPE_CHECKING:
    from regard.inspection.trace.base import Shown

__all__ = ["Classifier"]


@dataclass
class Classification:
    """What an input is, and how sure that is; `str()` of it is its label."""

    label: str
    probability: float
    probabilities: dict[str, float]
    """Of every label, the likeliest first."""

    def __str__(self) -> str:
        return self.label


class Classifier(ExampleTask):
    """A model with its input and labels: everything needed to classify."""

    usual: ClassVar[dict[str, Any]] = {"kind": "classifier"}
    target: ClassVar[str] = "label"
    usage: ClassVar[str] = "classify {model} '...'"
    public: ClassVar[tuple[str, ...]] = ("labels",)

    pair: Pair

    @property
    def labels(self) -> Label:
        target = self.pair.target
        assert isinstance(target, Label)
        return target

    @overload
    def classify(self, inputs: InputLike, progress: Progress | None = None) -> Classification: ...  # type: ignore[overload-overlap]
    @overload
    def classify(self, inputs: Iterable[InputLike], progress: Progress | None = None) -> list[Classification]: ...
    def classify(self, inputs: Any, progress: Progress | None = None) -> Any:
        """The class of one input of the kind that the model reads (a text, a picture, a series, ...), or the list of
        those of many, in order. `progress` is called with the number of inputs finished since the last call."""
        return one_or_many(inputs, self.pair.input, lambda raws: self._classify(raws, progress))

    @torch.inference_mode()
    def _classify(self, raws: Sequence[Raw], progress: Progress | None) -> list[Classification]:
        found: dict[int, Classification] = {}
        for indexes, source, mask in self.batches(raws, progress):
            probabilities = self.model(source, mask).float().softmax(-1)
            for index, row in zip(indexes, probabilities.tolist()):
                ranked = sorted(zip(self.labels.names, row), key=lambda pair: -pair[1])
                found[index] = Classification(*ranked[0], dict(ranked))
        return [found[i] for i in range(len(raws))]

    def inspect(self, given: InputLike, *, name: str = "") -> Shown:
        """What the model did with one text or picture; `name` is the model's."""
        kind = self.pair.input.kind
        if kind == "image":
            from regard.inspection.record.image import look_at_picture

            return look_at_picture(self, given, name)
        if kind == "text":
            from regard.inspection.record.text import look_at_class

            return look_at_class(self, PlainText().accept(given), name)
        raise UserError(f"this model reads {kind}, and there are no pictures of what it does with that yet")

    def judge(self, valid: Sequence[Example]) -> Validation:
        found = self.classify(self.inputs(valid))
        wanted = [str(example.target) for example in valid]
        for name in set(wanted):
            self.labels.id(name)  # a label never seen is refused, not counted as a mistake
        given = [one.label for one in found]
        scores = {"accuracy": accuracy(given, wanted), "f1": macro_f1(given, wanted), "loss": self.loss(valid)}
        shown = [(_shown(e.input), one.label, w) for e, one, w in zip(valid, found, wanted)]
        return Validation(scores, self.samples(shown))


def _shown(raw: Raw) -> str:
    return raw if isinstance(raw, str) else " ".join(raw) if isinstance(raw, list) else f"({type(raw).__name__})"
