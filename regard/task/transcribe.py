"""Transcription: sound in, the words that were spoken out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Unpack, overload

from regard.data.format._base import Example
from regard.data.input._accepted import SoundLike
from regard.evaluation.writing import word_error_rate
from regard.task._writing import Writer, WritingOptions, Written
from regard.types import Validation

__all__ = ["Transcriber"]


class Transcriber(Writer):
    """A model that listens and writes (Chan et al. 2016, "Listen, Attend and Spell")."""

    usage: ClassVar[str] = "transcribe {model} sound.wav"
    repeats: ClassVar[int] = 20
    """People do say "three three three three"."""

    @overload
    def transcribe(self, recordings: SoundLike, **options: Unpack[WritingOptions]) -> Written: ...  # type: ignore[overload-overlap]
    @overload
    def transcribe(self, recordings: Iterable[SoundLike], **options: Unpack[WritingOptions]) -> list[Written]: ...
    def transcribe(self, recordings: Any, **options: Unpack[WritingOptions]) -> Any:
        """The words spoken in a recording, or the list of those in many."""
        return self.written(recordings, **options)

    def judge(self, valid: Sequence[Example]) -> Validation:
        outputs = [one.text for one in self.transcribe(self.inputs(valid))]
        wanted = [str(example.target) for example in valid]
        scores = {
            "wer": word_error_rate(outputs, wanted),
            "wrong": 100 * sum(o != w for o, w in zip(outputs, wanted)) / max(1, len(wanted)),
            "loss": self.loss(valid),
        }
        return Validation(scores, self.samples([("(sound)", o, w) for o, w in zip(outputs, wanted)]))
