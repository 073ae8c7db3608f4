"""Runs a model over inputs, from arguments or lines of stdin, with one answer for each: shared by the task commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.progress import progress_bar
from regard.cli.stdin_lines import arriving_lines, decode_line
from regard.cli.terminal import say, shown
from regard.cli.translate import lines_waiting, writing_may_fail
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.bulk import Answers
    from regard.task._examples import ExampleTask

MAX_BATCH, MAX_BATCH_BYTES = 256, 32_000_000
"""Inputs that are loaded and answered together."""
READS = {
    "image": "pictures (PNG, JPEG, GIF, BMP, WebP)",
    "sound": "recordings (WAV, FLAC, OGG)",
    "clip": "clips (animated GIF)",
    "series": "series (CSV)",
}
"""File types by kind of input."""


@dataclass
class LineTask:
    """A loaded model and the options of its command."""

    model: str
    read: Callable[[str], Any]
    """Turns an argument or a line into a raw input."""
    use: Callable[[list[Any]], list[str]]
    settings: dict[str, Any]
    """The options that the answers depend on."""
    reads_files: bool = False
    """Whether a line names a file."""
    numbered: bool = False
    """Whether each line of output begins with the number of its input."""


def bulk_answers(open_task: Callable[[str, bool], LineTask], folder: str, *, device: str, threads: int) -> Answers:
    """The answers of bulk work. An input that cannot be read has an empty one, with a warning.

    Names of files are relative to `folder`: a worker on another machine starts elsewhere.
    """
    from regard.bulk import Answers
    from regard.find_model import find_model
    from regard.storage import read_folder

    task = open_task(device, True)

    def answer(texts: list[str], first: int, warn: Callable[[str], None], progress: Callable[[int], None]) -> list[str]:
        outputs: list[str] = []
        to_read = iter([number for number, text in enumerate(texts, first) if text.strip()])

        def read(text: str) -> Any:
            number = next(to_read)
            try:
                return task.read(os.path.join(folder, text.strip()) if task.reads_files else text)
            except UserError as error:
                warn(f"line {number} is left empty: {error}")
                return None

        for found in _answers(texts, read, task.use, blank=True):
            numbers = range(first + len(outputs), first + len(outputs) + len(found))
            outputs += [_numbered(one, n) if task.numbered else one for n, one in zip(numbers, found)]
            progress(len(found))
        return outputs

    model = read_folder(find_model(task.model), hash_tensors=False)
    return Answers({"model": model.hash[:16], **task.settings}, answer)


def reader(task: ExampleTask, quiet: bool = False) -> Callable[[str], Any]:
    """A function from an argument to a raw input of the task. Notes on changes to the input go to stderr."""
    input = task.pair.input
    note: Callable[[str], None] = (lambda text: None) if quiet else say

    def read(argument: str) -> Any:
        if input.kind == "text":
            if _is(argument, Path.is_file):
                note(f"{argument}: this model reads text, so the input is this name and not the content of the file")
            return input.read(argument, note)
        kind = READS[input.kind]
        if not argument.strip():
            raise UserError(f"an empty name was given; this model reads {kind}: name a file")
        if _is(argument, Path.is_dir):
            raise UserError(f"{argument} is a folder; this model reads {kind}: name the files in it")
        if not _is(argument, Path.exists):
            raise UserError(f"{_beginning(argument)} does not exist; this model reads {kind}: name a file")
        try:
            raw = input.read(argument, note)
        except OSError as error:
            raise UserError(f"{argument}: cannot be read ({error.strerror or error}); check the file") from None
        if input.kind == "clip" and len(raw) == 1:
            note(f"{argument}: has a single frame")
        return raw

    return read


def answer(
    arguments: Sequence[str] | None,
    read: Callable[[str], Any],
    use: Callable[[list[Any]], list[str]],
    example: str,
    quiet: bool = False,
    numbered: bool = False,
) -> None:
    """Writes the output of `use` for each argument or line of stdin.

    `read` turns an argument into a raw input. If it refuses one, the inputs before it are still answered. An empty line
    stays empty. With `numbered`, every line begins with the number of its input.
    """
    if not arguments and sys.stdin is None:
        raise UserError(f"nothing was given and standard input is closed; write: {example}")
    # No progress bar if stdin or stdout is a terminal: there the answers show the progress.
    bar = not quiet and not sys.stdout.isatty() and (bool(arguments) or not sys.stdin.isatty())
    total = len(arguments) if arguments else lines_waiting(sys.stdin.fileno()) if bar else None
    count = 0
    with writing_may_fail(), progress_bar(total, bar, "answered") as advance:
        for texts in [arguments] if arguments else _typed(quiet):
            for outputs in _answers(texts, read, use, blank=not arguments):
                for number, output in enumerate(outputs, count + 1):
                    text = _numbered(output, number) if numbered else output
                    sys.stdout.buffer.write(shown(text).encode("utf-8", "replace") + b"\n")
                sys.stdout.buffer.flush()
                advance(len(outputs))
                count += len(outputs)


def _numbered(output: str, number: int) -> str:
    return "\n".join(f"{number}\t{line}" for line in output.split("\n"))


def _typed(quiet: bool) -> Iterator[list[str]]:
    """Batches of the lines of stdin that have arrived."""
    if sys.stdin.isatty() and not quiet:
        say("ready: one input a line, Ctrl-D ends")
    count = 0
    for lines in arriving_lines(sys.stdin.fileno()):
        warn: Callable[[str], None] = (lambda text: None) if quiet else say
        yield [decode_line(line, number, warn) for number, line in enumerate(lines, count + 1)]
        count += len(lines)


def _answers(
    texts: Sequence[str], read: Callable[[str], Any], use: Callable[[list[Any]], list[str]], blank: bool
) -> Iterator[list[str]]:
    """Batches of answers. If a text cannot be read, those before it are answered first."""
    raws: list[Any] = []
    size, refused = 0, None
    for text in texts:
        try:
            raws.append(None if blank and not text.strip() else read(text))
        except UserError as error:
            refused = error
            break
        size += _size(raws[-1])
        if len(raws) == MAX_BATCH or size > MAX_BATCH_BYTES:
            yield _used(raws, use)
            raws, size = [], 0
    if raws:
        yield _used(raws, use)
    if refused:
        raise refused


def _used(raws: list[Any], use: Callable[[list[Any]], list[str]]) -> list[str]:
    given = [raw for raw in raws if raw is not None]
    found = iter(use(given) if given else [])
    return ["" if raw is None else next(found) for raw in raws]


def _size(raw: Any) -> int:
    """Bytes of the arrays in a raw input."""
    import numpy as np

    return sum(map(_size, raw)) if isinstance(raw, tuple) else raw.nbytes if isinstance(raw, np.ndarray) else 0


def _is(argument: str, what: Callable[[Path], bool]) -> bool:
    try:
        return what(Path(argument))
    except (OSError, ValueError):  # too long for a file name, or with invalid characters
        return False


def _beginning(argument: str) -> str:
    return argument if len(argument) <= 200 else f"{argument[:197]}..."
