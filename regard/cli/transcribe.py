"""`regard transcribe`: speech to text."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.bulk import Column, Input, Key, On, Output, ShardCount, bulk_file, model_for
from regard.cli.caption import tree_of, written
from regard.cli.inputs import LineTask, answer, bulk_answers, reader
from regard.cli.options import Beam, Device, From, JsonLines, Model, NBest, Quiet, To
from regard.cli.progress import progress_bar
from regard.cli.terminal import Format, as_json, one_line, say

if TYPE_CHECKING:
    from regard.task._recordings import Transcript

LONG = 60
"""Seconds of recordings from which their progress is shown second by second."""


def transcribe(
    model: Model,
    sounds: Annotated[
        list[str] | None, typer.Argument(metavar="FILE", help="WAV, FLAC or OGG; without it, names on stdin.")
    ] = None,
    source: From = None,
    target: To = None,
    timestamps: Annotated[
        bool, typer.Option("--timestamps", help="A line per segment: start and end in seconds, text.")
    ] = False,
    beam: Beam = None,
    n_best: NBest = 1,
    scores: Annotated[bool, typer.Option("--scores", help="Add a column with the log-probability.")] = False,
    device: Device = "auto",
    format: JsonLines = Format.text,
    input: Input = None,
    output: Output = None,
    shards: ShardCount = None,
    on: On = None,
    column: Column = None,
    key: Key = None,
    quiet: Quiet = False,
) -> None:
    """Transcribe recordings, one line each.

    Columns are separated by tabs: the recording's number (with --n-best), text, log-probability (with --scores).

    A model for several languages, such as Whisper, detects the language; --from names it, and --to en translates.
    """
    if timestamps and n_best > 1:
        raise typer.BadParameter("segments are those of the best text: leave out --timestamps or --n-best")
    options = {"source": source, "target": target, "timestamps": timestamps}
    opened = partial(_open, model_for(on, model), options, beam, n_best, scores, format)
    if bulk := bulk_file(sounds, input, output, shards, on, column, key):
        if timestamps and format is Format.text:
            raise typer.BadParameter("of a whole file each recording has one line; use --timestamps with --format json")
        return bulk.answer(partial(bulk_answers, opened, os.getcwd()), device, quiet)
    task = opened(device, quiet)
    answer(sounds, task.read, task.use, "regard transcribe MODEL speech.wav", quiet, task.numbered)


def _open(
    model: str,
    options: dict[str, Any],
    beam: int | None,
    n_best: int,
    scores: bool,
    format: Format,
    device: str,
    quiet: bool,
) -> LineTask:
    import regard
    from regard.task._speech_tokens import spoken_and_written

    task = regard.load(model, device=device, task="transcribe")
    spoken_and_written(task.recipe, task.speech, options["source"], options["target"])  # before anything is read

    def use(raws: list[Any]) -> list[str]:
        seconds = sum(len(raw.samples) / raw.rate for raw in raws)
        with progress_bar(round(seconds), not quiet and seconds > LONG, "seconds of sound") as advance:
            counted = _whole(advance)
            found = task.transcribe(raws, beam=beam, n_best=n_best, heard=counted, **options)
        if not quiet:
            for number, one in enumerate(found, 1):
                _tell(one, f"recording {number}: " if len(found) > 1 else "")
        return [_shown(one, format, scores, options["timestamps"]) for one in found]

    settings = {"beam": beam, "n_best": n_best, "scores": scores, "format": format.value, **options}
    return LineTask(model, reader(task, quiet), use, settings, True, n_best > 1 and format is Format.text)


def _whole(advance: Any) -> Any:
    """`advance` for seconds that are no whole numbers."""
    total, told = 0.0, 0

    def count(seconds: float) -> None:
        nonlocal total, told
        total += seconds
        advance(round(total) - told)
        told = round(total)

    return count


def _tell(one: Transcript, which: str) -> None:
    """What the model found besides the text."""
    from regard.languages import name

    if one.language_probability is not None:
        say(f"{which}the language is {name(one.language)} ({one.language}), probability {one.language_probability:.2f}")
    if not one.text:
        say(f"{which}nothing was heard")


def _shown(one: Transcript, format: Format, scores: bool, timestamps: bool) -> str:
    if format is Format.json:
        segments = [{"start": part.start, "end": part.end, "text": part.text} for part in one.segments]
        spoken = {"language": one.language} if one.language else {}
        return as_json({**tree_of(one), **spoken, **({"segments": segments} if segments else {})})
    if timestamps:
        return "\n".join(f"{part.start:.2f}\t{part.end:.2f}\t{one_line(part.text)}" for part in one.segments)
    return written(one, format, scores)
