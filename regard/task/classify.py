"""Classification: text, picture, sound, clip or series in, class probabilities out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, overload

import torch

from regard.data.codec import Pair
from regard.data.format._base import Example
from regard.data.input._accepted import InputLike
from regard.data.input._base import Raw
from regard.data.target.label import Label
from regard.evaluation.labels import accuracy, macro_f1
from regard.task._base import Progress
from regard.task._examples import ExampleTask
from regard.task._one_or_many import one_or_many
from regard.types import Better, Validation

if TYPE_CHECKING:
    from regard.inspection.trace.image import ImageTrace
    from regard.inspection.trace.text import TextTrace

__all__ = ["Classifier"]


@dataclass
class Classification:
    """The class of an input; `str()` gives its label."""

    label: str
    probability: float
    probabilities: dict[str, float]
    """The probability of every label, most probable first."""

    def __str__(self) -> str:
        return self.label


class Classifier(ExampleTask):
    """A classification model with its input and labels."""

    usual: ClassVar[dict[str, Any]] = {"kind": "classifier"}
    target: ClassVar[str] = "label"
    usage: ClassVar[str] = "classify {model} '...'"
    scores: ClassVar[dict[str, Better]] = {"accuracy": "higher", "f1": "higher", "loss": "lower"}
    public: ClassVar[tuple[str, ...]] = ("labels",)

    pair: Pair

    @property
    def labels(self) -> Label:
        """The labels that the model knows."""
        target = self.pair.target
        assert isinstance(target, Label)
        return target

    @overload
    def classify(self, inputs: InputLike, progress: Progress | None = None) -> Classification: ...  # type: ignore[overload-overlap]
    @overload
    def classify(self, inputs: Iterable[InputLike], progress: Progress | None = None) -> list[Classification]: ...
    def classify(self, inputs: Any, progress: Progress | None = None) -> Any:
        """Classifies one input of the kind the model reads (a text, a picture, a series, ...), or many into a list.

        Args:
            inputs: One input, or an iterable of inputs.
            progress: Called with the number of inputs finished since the last call.

        Returns:
            A `Classification`, or a list of them.
        """
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

    def inspect(self, given: InputLike, *, name: str = "") -> TextTrace | ImageTrace:
        """Classifies one text or picture and returns a trace of what the model computed.

        Args:
            given: The text or picture.
            name: The name of the model in pictures.

        Returns:
            The trace.
        """
        from regard.inspection.record.classify import record_classification

        return record_classification(self, given, name)

    def judge(self, valid: Sequence[Example]) -> Validation:
        found = self.classify(self.inputs(valid))
        references = [str(example.target) for example in valid]
        for name in set(references):
            self.labels.id(name)  # refuses labels that are not in the training data
        predicted = [one.label for one in found]
        scores = {
            "accuracy": accuracy(predicted, references),
            "f1": macro_f1(predicted, references),
            "loss": self.loss(valid),
        }
        shown = [(_shown(e.input), one.label, reference) for e, one, reference in zip(valid, found, references)]
        return Validation(scores, self.samples(shown))


def _shown(raw: Raw) -> str:
    return raw if isinstance(raw, str) else " ".join(raw) if isinstance(raw, list) else f"({type(raw).__name__})"
