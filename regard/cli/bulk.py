"""`--input FILE --output FOLDER`: bulk work of every command that answers lines, here or on a Ray cluster (`--on`)."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import MOST, output_folder
from regard.cli.progress import parts_bar
from regard.cli.stdin_lines import decode_line
from regard.cli.terminal import say
from regard.data.corpus.reading import check_file
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.bulk import Answers, Shards

PROGRESS_INTERVAL = 30.0
"""Seconds between progress lines where there is no progress bar."""

Input = Annotated[
    str | None,
    typer.Option(
        "--input",
        metavar="FILE",
        help="A file of lines, plain, .gz, .xz or .zst; needs --output. With --on also .jsonl, .csv, .parquet, "
        "a folder, a glob or a URL.",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FOLDER",
        callback=output_folder,
        help="Folder for the answers to --input. The same command resumes it.",
    ),
]
ShardCount = Annotated[
    int | None,
    typer.Option("--shards", min=1, max=MOST, help="Number of output files of --input; default: one per 10,000 lines."),
]
On = Annotated[
    str | None,
    typer.Option("--on", metavar="CLUSTER", help="Use a Ray cluster for --input: ray://HOST:10001, auto or local."),
]
Column = Annotated[
    str | None, typer.Option("--column", metavar="NAME", help="The column with the text, with --on; default: text.")
]
Key = Annotated[
    str | None,
    typer.Option("--key", metavar="NAME", help="The column that identifies a row, with --on; default: FILE:ROW."),
]


@dataclass(frozen=True)
class BulkFile:
    """The options of a command that say which file it answers, where to, and on which cluster."""

    input: str
    output: Path
    shards: int | None
    on: str | None
    column: str | None
    key: str | None

    def answer(self, load: Callable[..., Answers], device: str, quiet: bool, what: str = "answering") -> None:
        """Answers every line. `load` is called with `device` and `threads`, in this process or on the nodes."""
        warn: Callable[[str], None] = warn_nothing if quiet else say
        if self.on:
            return self._answer_on_ray(self.on, load, device, quiet, what)

        from regard.bulk import Shards

        loaded = load(device=own_device(device), threads=0)
        ending = "jsonl" if loaded.settings.get("format") == "json" else "txt"
        work = Shards(Path(self.input), self.output, loaded.settings, self.shards, ending, warn)
        with corpus_progress(work, quiet, what) as (advance, told):

            def answer(lines: list[bytes], first: int) -> list[str]:
                texts = [decode_line(line, number, warn) for number, line in enumerate(lines, first)]
                return loaded.answer(texts, first, warn, advance)

            work.run(answer, told)

    def _answer_on_ray(self, on: str, load: Callable[..., Answers], device: str, quiet: bool, what: str) -> None:
        from regard.ray.bulk import BulkJob
        from regard.ray.input_files import Input

        warn: Callable[[str], None] = warn_nothing if quiet else say
        source = Input(self.input, self.column, self.key)
        with lines_bar(quiet, what) as show:
            job = BulkJob(source, self.output, load, device=device, shards=self.shards, note=warn, progress=show)
            try:
                plan = job.run(on)
            except KeyboardInterrupt:
                say(f"stopped; the same command goes on with what is in {self.output}")
                raise typer.Exit(130) from None
        for problem in job.problems(plan):
            warn(problem)
        warn(f"all {plan.lines:,} lines are in {self.output} (shards: {plan.shards:,})")


def bulk_file(
    given: list[str] | None,
    input: str | None,
    output: Path | None,
    shards: int | None,
    on: str | None,
    column: str | None,
    key: str | None,
) -> BulkFile | None:
    """None if a command is not asked to answer a file. Refuses options that do not go together."""
    if not (input and output):
        if input or output or shards is not None:
            raise UserError("a corpus needs both --input FILE and --output FOLDER; --shards is for a corpus only")
        if on or column or key:
            raise UserError("--on, --column and --key are for a corpus; add --input FILE and --output FOLDER")
        return None
    if given:
        raise UserError("give either text or --input, not both")
    if on:
        from regard.ray.cluster import check_address

        check_address(on)
        input = input if "://" in input else os.path.abspath(input)
    elif column or key:
        raise UserError("--column and --key are for work on Ray; add --on local, or leave them out")
    else:
        check_file(Path(input))
    return BulkFile(input, output, shards, on, column, key)


def model_for(on: str | None, model: str) -> str:
    """A model as workers elsewhere find it: a folder by its full path."""
    if not on or not Path(model).exists():
        return model
    from regard.find_model import find_model

    found = find_model(model)
    return str(found.absolute()) if found == Path(model) or Path(model) in found.parents else model


def warn_nothing(message: str) -> None: ...


def own_device(wanted: str) -> str:
    """Under torchrun, each process on a machine uses its own GPU."""
    place = os.environ.get("LOCAL_RANK", "")
    if wanted != "auto" or not place.isdecimal():
        return wanted
    import torch

    return f"cuda:{int(place) % torch.cuda.device_count()}" if torch.cuda.is_available() else wanted


@contextmanager
def lines_bar(quiet: bool, what: str) -> Iterator[Callable[[int, int], None]]:
    """Yields a function to call with the lines that are done and all lines: a bar, or now and then a line."""
    last = time.monotonic()

    def told(done: int, total: int) -> None:
        nonlocal last
        show(done, total, what)
        if not quiet and not sys.stderr.isatty() and time.monotonic() - last >= PROGRESS_INTERVAL:
            last = time.monotonic()
            say(f"{done:,} of {total:,} lines")

    with parts_bar(enabled=not quiet) as show:
        yield told


@contextmanager
def corpus_progress(
    work: Shards, quiet: bool, what: str = "translating"
) -> Iterator[tuple[Callable[[int], None], Callable[[int], None]]]:
    """Shows how many lines are done, in the first process only.

    Yields two functions: one takes the lines finished since the last call, the other all that are done.
    """
    quiet = quiet or os.environ.get("RANK", "0") != "0"
    total, done = work.plan.lines, work.done()

    def more(lines: int) -> None:
        all_done(min(done + lines, total))

    def all_done(lines: int) -> None:
        nonlocal done
        done = max(done, lines)  # lines that were split are counted more than once
        show(done, total)

    with lines_bar(quiet, what) as show:
        yield more, all_done
    if not quiet:
        say(f"all {total:,} lines are in {work.folder} (shards: {work.plan.shards:,})")
