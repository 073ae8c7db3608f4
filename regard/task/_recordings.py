"""Transcripts of recordings of any length, by a window that moves over them (Radford et al. 2022, 3.8).

A model with tokens of time says itself where the window moves: behind the last segment that it heard to its end. For
another the window ends where it is quietest. Of the authors' heuristics these are left out: a window is not told the
text before it, and a doubtful one is not searched again at a higher temperature.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.data.examples import pad_arrays
from regard.data.input.sound import Sound
from regard.errors import UserError
from regard.states import Hypothesis
from regard.task._speech_tokens import TIME_STEP, SpeechTokens
from regard.task._writing import Written, search
from regard.types import BEGIN, Memory

if TYPE_CHECKING:
    from regard.task.transcribe import Transcriber

SILENT, UNSURE = 0.6, -1.0
"""Where "no speech" is likelier than the first and the mean log-probability of a token less than the second, a window
has no text: the authors' thresholds."""
_LEAST = 30
"""A window moves by at least this part of its length."""
_QUIET = 6
"""Without tokens of time it ends in this last part of its length, where it is quietest."""
_BLOCK = 0.02
"""Seconds of sound whose loudness is compared for that."""


@dataclass
class Segment:
    """A stretch of a recording and its text."""

    start: float
    """Seconds."""
    end: float
    text: str


@dataclass
class Transcript(Written):
    """The text of a recording; `str()` gives the text."""

    language: str = ""
    """Which was spoken; empty for a model that knows of one language only and does not say which."""
    language_probability: float | None = None
    """How likely that is, among the model's languages; None if it was not detected."""
    translated: bool = False
    segments: list[Segment] = field(default_factory=list)
    """With `timestamps`, and of recordings that are longer than the model's window."""


class Options(NamedTuple):
    """How recordings are transcribed."""

    language: str
    """Empty: detected in the first window."""
    translated: bool
    timestamps: bool
    width: int
    n_best: int
    length_penalty: float
    longest: int
    """Tokens of one window's text."""


@dataclass
class _Recording:
    """A recording, and what has been heard of it."""

    number: int
    samples: np.ndarray
    timed: bool
    language: str
    probability: float | None = None
    at: int = 0
    """The sample at which the window begins."""
    ids: list[int] = field(default_factory=list)
    probabilities: list[float] = field(default_factory=list)
    log_probability: float = 0.0
    score: float = 0.0
    finished: bool = True
    prefix: list[int] = field(default_factory=list)
    alternatives: list[Written] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)


class Windows:
    """Transcribes recordings together: each forward pass takes the next window of several of them."""

    def __init__(self, task: Transcriber, options: Options, heard: Callable[[float], None] | None = None) -> None:
        """`heard` is called with the seconds that were transcribed since its last call."""
        self.task, self.options, self.heard = task, options, heard
        self.tokens: SpeechTokens | None = task.speech
        self.rate = task.pair.input.sizes()["rate"]
        stem = task.model.stem
        self.window: int | None = stem.longest
        self.together = max(1, task.recipe.decoding.batch_tokens // getattr(stem, "length", 1))

    def transcribe(self, raws: Sequence[Sound]) -> Iterator[tuple[int, Transcript]]:
        """The transcript of each, with its number, in the order in which they are finished."""
        waiting = [self._begun(number, raw) for number, raw in enumerate(raws)]
        while waiting:
            # Prompts of one batch have the same length.
            batch = [one for one in waiting if one.timed == waiting[0].timed][: self.together]
            self._next_window(batch)
            for one in [one for one in batch if one.at >= len(one.samples)]:
                waiting.remove(one)
                yield one.number, self._transcript(one)

    def _begun(self, number: int, raw: Sound) -> _Recording:
        samples = self.task.pair.input.encode(raw)
        long = self.window is not None and len(samples) > self.window
        if long and self.options.n_best > 1:
            assert self.window is not None
            raise UserError(
                f"several texts are found for a recording of {self.window / self.rate:g} seconds at most; "
                f"this one has {len(samples) / self.rate:.0f}: leave n-best out"
            )
        timed = self.tokens is not None and (self.options.timestamps or long)
        return _Recording(number, samples, timed, self.options.language)

    def _next_window(self, batch: list[_Recording]) -> None:
        ends = [self._end(one) for one in batch]
        loud = [(one, end) for one, end in zip(batch, ends) if one.samples[one.at : end].any()]
        for one, end in zip(batch, ends):
            if not one.samples[one.at : end].any():  # digital silence has no text
                self._move(one, end)
        if not loud:
            return
        task, options = self.task, self.options
        source, mask = pad_arrays([one.samples[one.at : end] for one, end in loud], True)
        memory: Memory = task.model.encode(source.to(task.device), mask.to(task.device))
        silent = self._hear([one for one, _ in loud], memory)
        rules = self.tokens.rules(loud[0][0].prefix) if self.tokens else []
        forced = len(loud[0][0].prefix)
        prefix = torch.tensor([one.prefix for one, _ in loud], device=task.device) if forced else None
        limits = torch.full((len(loud),), options.longest + forced, device=task.device)
        if (positions := task.model.decoder.embedding.position.limit) is not None:
            limits = limits.clamp(max=max(forced + 1, positions - 1))
        loops = torch.full_like(limits, task.repeats)
        found = search(
            task.model.decoder,
            memory,
            limits,
            loops,
            options.width,
            options.n_best,
            options.length_penalty,
            prefix,
            further=rules,
        )
        for hypotheses in found:
            for hypothesis in hypotheses:
                hypothesis.ids = hypothesis.ids[forced:]
        sure = task.probabilities(memory, [hypotheses[0].ids for hypotheses in found], prefix)
        for (one, end), hypotheses, probabilities, no_speech in zip(loud, found, sure, silent):
            self._add(one, end, hypotheses, probabilities, no_speech)

    def _end(self, one: _Recording) -> int:
        """The sample at which the window ends."""
        if self.window is None or len(one.samples) - one.at <= self.window:
            return len(one.samples)
        end = one.at + self.window
        return end if one.timed else quietest(one.samples, end - self.window // _QUIET, end, round(_BLOCK * self.rate))

    def _hear(self, batch: list[_Recording], memory: Memory) -> list[float]:
        """Sets the language and the prefix of each; returns the probability that there is no speech."""
        tokens = self.tokens
        if tokens is None:
            return [0.0] * len(batch)
        decoder = self.task.model.decoder
        begin = torch.full((len(batch), 1), BEGIN, device=self.task.device)
        logits: Tensor = decoder.step(begin, decoder.start(memory, beams=1, capacity=0))[0][:, -1].float()
        codes = list(tokens.languages)
        if codes:
            shares = logits[:, [tokens.languages[code] for code in codes]].softmax(-1)
            for one, share, best in zip(batch, shares.amax(-1).tolist(), shares.argmax(-1).tolist()):
                if not one.language:
                    one.language, one.probability = codes[best], share
        for one in batch:
            one.prefix = tokens.opening(one.language, self.options.translated, one.timed)
        if tokens.no_speech is None:
            return [0.0] * len(batch)
        return logits.softmax(-1)[:, tokens.no_speech].tolist()

    def _add(
        self, one: _Recording, end: int, hypotheses: list[Hypothesis], probabilities: list[float], no_speech: float
    ) -> None:
        """Adds what was heard in a window, and moves it."""
        best, *others = hypotheses
        if no_speech > SILENT and best.log_probability / (len(best.ids) + 1) < UNSURE:
            return self._move(one, end)
        one.alternatives = [self.task.as_written(other) for other in others]
        one.finished &= best.finished
        first = one.at / self.rate
        ids, behind = best.ids, end
        if one.timed and self.tokens:
            found = segments(best.ids, self.tokens.first_time)
            for start, stop, part in found.spans:
                until = len(one.samples) / self.rate
                stop_at = end / self.rate if stop is None else first + stop * TIME_STEP
                one.segments.append(
                    Segment(
                        round(min(first + start * TIME_STEP, until), 2),
                        round(min(stop_at, until), 2),
                        self._text(best.ids[part]),
                    )
                )
            ids = best.ids[: found.kept]
            if found.move is not None:
                step = max(round(found.move * TIME_STEP * self.rate), (self.window or 0) // _LEAST)
                behind = min(one.at + step, len(one.samples))
        one.ids += ids
        one.probabilities += probabilities[: len(ids)]
        one.log_probability += best.log_probability
        one.score += best.score
        self._move(one, behind)

    def _move(self, one: _Recording, to: int) -> None:
        if self.heard:
            self.heard((to - one.at) / self.rate)
        one.at = to

    def _text(self, ids: Sequence[int]) -> str:
        return self.task.tokenizer.decode(ids).strip()

    def _transcript(self, one: _Recording) -> Transcript:
        return Transcript(
            self._text(one.ids),
            one.score,
            one.log_probability,
            one.ids,
            self.task.tokenizer.pieces(one.ids),
            one.probabilities,
            one.finished,
            one.alternatives,
            one.prefix,
            one.language,
            one.probability,
            self.options.translated,
            one.segments,
        )


class Segments(NamedTuple):
    """The output for one window, cut at its tokens of time."""

    spans: list[tuple[int, int | None, slice]]
    """Start and end in steps of time from the window's beginning (None: its end), and which tokens."""
    kept: int
    """Tokens that belong to them; those behind are of a segment that the window cuts off, and are dropped."""
    move: int | None
    """Steps to the next window; None: behind this one."""


def segments(ids: Sequence[int], first_time: int) -> Segments:
    """Two times in a row end one segment and begin the next. One alone at the end means that nothing follows it; else
    what follows the last pair is heard again in the next window."""
    times = [id - first_time for id in ids]
    pairs = [at for at in range(1, len(ids)) if times[at - 1] >= 0 and times[at] >= 0]
    alone = len(ids) > 0 and times[-1] >= 0 and (len(ids) < 2 or times[-2] < 0)
    if not pairs:
        stated = [time for time in times if time >= 0]
        end = stated[-1] if stated and stated[-1] > 0 else None
        return Segments([(0, end, slice(0, len(ids)))], len(ids), None)
    ends = [*pairs, len(ids)] if alone else pairs
    spans: list[tuple[int, int | None, slice]] = [
        (times[start], times[end - 1], slice(start, end)) for start, end in zip([0, *ends[:-1]], ends)
    ]
    return Segments(spans, ends[-1], None if alone else times[ends[-1] - 1])


def quietest(samples: np.ndarray, start: int, end: int, block: int) -> int:
    """The middle of the block of samples between start and end with the least energy."""
    count = max(1, (end - start) // block)
    blocks = samples[start : start + count * block].reshape(count, -1)
    return start + int(np.square(blocks).sum(1).argmin()) * block + block // 2
