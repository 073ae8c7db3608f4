"""Speech recognition: sound in, the spoken words out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Unpack, overload

from regard.data.format._base import Example
from regard.data.input._accepted import SoundLike
from regard.evaluation.writing import word_error_rate
from regard.task._writing import Writer, WritingOptions, Written
from regard.types import Better, Validation

__all__ = ["Transcriber"]


class Transcriber(Writer):
    """A speech recogniser (Chan et al. 2016, "Listen, Attend and Spell")."""

    usage: ClassVar[str] = "transcribe {model} sound.wav"
    scores: ClassVar[dict[str, Better]] = {"wer": "lower", "wrong": "lower", "loss": "lower"}
    repeats: ClassVar[int] = 20
    """Digit strings do repeat: "three three three three"."""

    @overload
    def transcribe(self, recordings: SoundLike, **options: Unpack[WritingOptions]) -> Written: ...  # type: ignore[overload-overlap]
    @overload
    def transcribe(self, recordings: Iterable[SoundLike], **options: Unpack[WritingOptions]) -> list[Written]: ...
    def transcribe(self, recordings: Any, **options: Unpack[WritingOptions]) -> Any:
        """Transcribes a recording, or many into a list.

        Args:
            recordings: A recording (a path, bytes, or samples with their rate), or an iterable of them.
            options: See `WritingOptions`.

        Returns:
            A `Written`, or a list of them.
        """
        return self.written(recordings, **options)

    def judge(self, valid: Sequence[Example]) -> Validation:
        outputs = [one.text for one in self.transcribe(self.inputs(valid))]
        references = [str(example.target) for example in valid]
        scores = {
            "wer": word_error_rate(outputs, references),
            "wrong": 100 * sum(o != r for o, r in zip(outputs, references)) / max(1, len(references)),
            "loss": self.loss(valid),
        }
        return Validation(scores, self.samples([("(sound)", o, r) for o, r in zip(outputs, references)]))
