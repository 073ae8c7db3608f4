"""Captioning: a picture in, a sentence about it out, with attention over the picture for each word."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Unpack, overload

from regard.data.format._base import Example
from regard.data.input._accepted import PictureLike
from regard.data.target.text import references
from regard.evaluation.captions import cider, meteor_exact
from regard.evaluation.writing import bleu4
from regard.task._writing import Writer, WritingOptions, Written
from regard.types import Better, Validation

__all__ = ["Captioner"]


class Captioner(Writer):
    """An image captioner (Xu et al. 2015, "Show, Attend and Tell")."""

    usual: ClassVar[dict[str, Any]] = {**Writer.usual, "stem": "grid"}
    usage: ClassVar[str] = "caption {model} photo.jpg"
    scores: ClassVar[dict[str, Better]] = {
        "bleu4": "higher",
        "cider": "higher",
        "meteor_exact": "higher",
        "loss": "lower",
    }

    @overload
    def caption(self, pictures: PictureLike, **options: Unpack[WritingOptions]) -> Written: ...  # type: ignore[overload-overlap]
    @overload
    def caption(self, pictures: Iterable[PictureLike], **options: Unpack[WritingOptions]) -> list[Written]: ...
    def caption(self, pictures: Any, **options: Unpack[WritingOptions]) -> Any:
        """Describes a picture, or many into a list.

        Args:
            pictures: A picture (a path, bytes or pixels), or an iterable of pictures.
            options: See `WritingOptions`.

        Returns:
            A `Written`, or a list of them.
        """
        return self.written(pictures, **options)

    def judge(self, valid: Sequence[Example]) -> Validation:
        """BLEU-4, CIDEr-D and METEOR's exact module against all captions of a picture, and the loss of the first."""
        outputs = [one.text for one in self.caption(self.inputs(valid))]
        captions = [references(example.target) for example in valid]
        scores = {"bleu4": bleu4(outputs, captions), "cider": cider(outputs, captions)}
        scores |= {"meteor_exact": meteor_exact(outputs, captions), "loss": self.loss(valid)}
        return Validation(scores, self.samples([("(picture)", o, c[0]) for o, c in zip(outputs, captions)]))
