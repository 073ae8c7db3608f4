"""Speech recognition: sound in, the spoken words out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Unpack, overload

import torch

from regard.config import Recipe
from regard.data.codec import Pair
from regard.data.format._base import Example
from regard.data.input._accepted import InputLike, SoundLike
from regard.data.splitting import Parts
from regard.data.target.text import Text
from regard.errors import UserError
from regard.evaluation.writing import word_error_rate
from regard.task._base import Progress
from regard.task._recordings import Options, Transcript, Windows
from regard.task._speech_tokens import SpeechTokens, speech_tokens, spoken_and_written
from regard.task._writing import Writer, WritingOptions
from regard.types import Better, Validation

if TYPE_CHECKING:
    from regard.inspection.trace.image import CaptionTrace

__all__ = ["Transcriber"]


class TranscribingOptions(WritingOptions, total=False):
    """The keywords of `transcribe`."""

    source: str | None
    """The language that is spoken. A model for several detects it in the first window, if it is not given."""
    target: str | None
    """The language to write, if it is another one: models such as Whisper translate to English."""
    timestamps: bool
    """Whether the transcript has segments with times. Recordings longer than the model's window have them anyway."""
    heard: Callable[[float], None] | None
    """Called with the seconds that were transcribed since the last call."""


class Transcriber(Writer):
    """A speech recogniser (Chan et al. 2016, "Listen, Attend and Spell"), or one that is told what to do by the first
    tokens of its output (Radford et al. 2022, "Robust Speech Recognition via Large-Scale Weak Supervision")."""

    usual: ClassVar[dict[str, Any]] = {**Writer.usual, "stem": "frames"}
    usage: ClassVar[str] = "transcribe {model} sound.wav"
    scores: ClassVar[dict[str, Better]] = {"wer": "lower", "wrong": "lower", "loss": "lower"}
    repeats: ClassVar[int] = 20
    """Digit strings do repeat: "three three three three"."""

    @classmethod
    def codec(cls, recipe: Recipe, files: Mapping[str, bytes]) -> Pair:
        return _opened(recipe, super().codec(recipe, files))

    @classmethod
    def fit(cls, recipe: Recipe, parts: Parts, known: Mapping[str, bytes], same: bool) -> Pair:
        pair = _opened(recipe, super().fit(recipe, parts, known, same))
        if recipe.languages.tags and not recipe.source_language:
            raise UserError("source_language: this model has several languages; say which is spoken: --from de")
        return pair

    @cached_property
    def speech(self) -> SpeechTokens | None:
        """The tokens that tell the model what to do, if it is one that is told."""
        return speech_tokens(self.recipe, self.tokenizer)

    @overload
    def transcribe(self, recordings: SoundLike, **options: Unpack[TranscribingOptions]) -> Transcript: ...  # type: ignore[overload-overlap]
    @overload
    def transcribe(
        self, recordings: Iterable[SoundLike], **options: Unpack[TranscribingOptions]
    ) -> list[Transcript]: ...
    def transcribe(self, recordings: Any, **options: Unpack[TranscribingOptions]) -> Any:
        """Transcribes a recording, or many into a list.

        Args:
            recordings: A recording (a path, bytes, or samples with their rate), or an iterable of them.
            options: See `TranscribingOptions`.

        Returns:
            A `Transcript`, or a list of them.
        """
        return self.written(recordings, **options)

    @torch.inference_mode()
    def write_all(
        self,
        raws: Sequence[Any],
        *,
        source: str | None = None,
        target: str | None = None,
        timestamps: bool = False,
        beam: int | None = None,
        n_best: int = 1,
        length_penalty: float | None = None,
        max_length: int | None = None,
        progress: Progress | None = None,
        heard: Callable[[float], None] | None = None,
    ) -> list[Any]:
        """One transcript per recording, in order."""
        language, translated = spoken_and_written(self.recipe, self.speech, source, target)
        if timestamps and self.speech is None:
            raise UserError("this model has no tokens of time; leave the timestamps out")
        if self.speech is None and self.model.stem.longest is None:
            options: WritingOptions = {
                "beam": beam,
                "n_best": n_best,
                "length_penalty": length_penalty,
                "max_length": max_length,
                "progress": progress,
            }
            return [Transcript(**vars(one), language=language) for one in super().write_all(raws, **options)]
        width, penalty, longest = self.searching(beam, n_best, length_penalty, max_length)
        windows = Windows(self, Options(language, translated, timestamps, width, n_best, penalty, longest), heard)
        found: dict[int, Transcript] = {}
        for number, transcript in windows.transcribe(raws):
            found[number] = transcript
            if progress:
                progress(1)
        return [found[number] for number in range(len(raws))]

    def inspect(
        self,
        given: InputLike,
        *,
        name: str = "",
        beam: int | None = None,
        length_penalty: float | None = None,
        max_length: int | None = None,
        n_best: int = 1,
        source: str | None = None,
        target: str | None = None,
    ) -> CaptionTrace:
        """Transcribes one recording and returns a trace of what the model computed.

        Args:
            given: The recording; of a model with a window no longer than that.
            name: The name of the model in pictures.
            beam: Beam width. Defaults to the recipe's.
            length_penalty: The higher, the longer the text; 0 to 10.
            max_length: Most tokens of the text.
            n_best: How many texts the search returns.
            source: The language that is spoken; by default it is detected.
            target: The language to write, if it is another one.

        Returns:
            The trace.
        """
        from regard.inspection.record.caption import record_caption

        spoken = {"source": source, "target": target}
        return record_caption(self, given, name, beam, length_penalty, max_length, n_best, **spoken)

    def judge(self, valid: Sequence[Example]) -> Validation:
        outputs = [one.text for one in self.transcribe(self.inputs(valid))]
        references = [str(example.target) for example in valid]
        scores = {
            "wer": word_error_rate(outputs, references),
            "wrong": 100 * sum(o != r for o, r in zip(outputs, references)) / max(1, len(references)),
        }
        if self.recipe.source_language or not self.recipe.languages.tags:  # else no text is the expected one
            scores["loss"] = self.loss(valid)
        return Validation(scores, self.samples([("(sound)", o, r) for o, r in zip(outputs, references)]))


def _opened(recipe: Recipe, pair: Pair) -> Pair:
    """The codec of a model that is trained on texts with the tokens that say what they are."""
    target = pair.target
    assert isinstance(target, Text)
    tokens = speech_tokens(recipe, target.tokenizer)
    if tokens is not None and (recipe.source_language or not tokens.languages):
        target.opening = tokens.opening(*spoken_and_written(recipe, tokens, None, None), timestamps=False)
    return pair
