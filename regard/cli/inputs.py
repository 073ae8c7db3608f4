"""What commands share that show a model some inputs: arguments, or lines of standard input, and one answer for each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.pipes import arriving_lines, decode_line
from regard.cli.progress import progress_bar
from regard.cli.terminal import say, shown
from regard.cli.translate import lines_waiting, writing_may_fail
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.task._examples import ExampleTask

MOST, BYTES = 256, 32_000_000
"""Inputs that are answered together, and how much they may weigh: a thousand photographs are not held at once."""
READS = {
    "image": "pictures (PNG, JPEG, GIF, BMP, WebP)",
    "sound": "recordings (WAV, FLAC, OGG)",
    "clip": "clips (animated GIF)",
    "series": "series (CSV)",
}
"""What kinds of input are read from, where it is files."""


def reader(task: ExampleTask, quiet: bool = False) -> Callable[[str], Any]:
    """How an argument becomes what the task's model takes; what had to be changed in it is said on stderr."""
    input = task.pair.input
    note: Callable[[str], None] = (lambda text: None) if quiet else say

    def read(argument: str) -> Any:
        if input.kind == "text":
            if _is(argument, Path.is_file):
                note(f"{argument}: this model reads text, so it was shown this name and not what is in the file")
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
            note(f"{argument}: has a single frame, in which nothing moves")
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
    """Writes what `use` says of each input, a line (or block) each: of the arguments, or of lines of standard input.

    `read` turns an argument into what the model takes, refusing what it cannot; those before it are answered. An empty
    line stays empty. With `numbered` every line begins with the number of its input.
    """
    if not arguments and sys.stdin is None:
        raise UserError(f"nothing was given and standard input is closed; write: {example}")
    # No bar where a person types the input or reads the output: there the answers show how far it is.
    bar = not quiet and not sys.stdout.isatty() and (bool(arguments) or not sys.stdin.isatty())
    total = len(arguments) if arguments else lines_waiting(sys.stdin.fileno()) if bar else None
    count = 0
    with writing_may_fail(), progress_bar(total, bar, "answered") as advance:
        for texts in [arguments] if arguments else _typed(quiet):
            for outputs in _answers(texts, read, use, blank=not arguments):
                for number, output in enumerate(outputs, count + 1):
                    lines = [f"{number}\t{line}" for line in output.split("\n")] if numbered else [output]
                    sys.stdout.buffer.write(shown("\n".join(lines)).encode("utf-8", "replace") + b"\n")
                sys.stdout.buffer.flush()
                advance(len(outputs))
                count += len(outputs)


def _typed(quiet: bool) -> Iterator[list[str]]:
    """The lines of standard input, as many at a time as have arrived."""
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
    """An answer for each text, some at a time. Where one cannot be read, those before it are answered first."""
    raws: list[Any] = []
    weight, refused = 0, None
    for text in texts:
        try:
            raws.append(None if blank and not text.strip() else read(text))
        except UserError as error:
            refused = error
            break
        weight += _weight(raws[-1])
        if len(raws) == MOST or weight > BYTES:
            yield _used(raws, use)
            raws, weight = [], 0
    if raws:
        yield _used(raws, use)
    if refused:
        raise refused


def _used(raws: list[Any], use: Callable[[list[Any]], list[str]]) -> list[str]:
    given = [raw for raw in raws if raw is not None]
    found = iter(use(given) if given else [])
    return ["" if raw is None else next(found) for raw in raws]


def _weight(raw: Any) -> int:
    """Bytes, roughly; of what is not made of arrays next to none."""
    return sum(map(_weight, raw)) if isinstance(raw, tuple) else int(getattr(raw, "nbytes", 0))


def _is(argument: str, what: Callable[[Path], bool]) -> bool:
    try:
        return what(Path(argument))
    except (OSError, ValueError):  # longer than any name, or of characters that no name has
        return False


def _beginning(argument: str) -> str:
    return argument if len(argument) <= 200 else f"{argument[:197]}..."
