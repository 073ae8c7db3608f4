"""Progress bars on stderr, only where a person sees them: over lines, and over the parts of a longer work."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress


@contextmanager
def progress_bar(total: int | None, wanted: bool = True, what: str = "translating") -> Iterator[Callable[[int], None]]:
    """Gives a function to call with the number of lines that were finished."""
    if not wanted or not sys.stderr.isatty():
        yield lambda lines: None
        return
    with _bar() as progress:
        task = progress.add_task(what, total=total)
        yield lambda lines: progress.advance(task, lines)


@contextmanager
def parts_bar(wanted: bool = True) -> Iterator[Callable[[int, int, str], None]]:
    """Gives a function to call with how much is done, of how much, and of what; a new name begins a new bar."""
    if not wanted or not sys.stderr.isatty():
        yield lambda done, total, what: None
        return
    with _bar() as progress:
        task = progress.add_task("", total=None)
        shown = ""

        def show(done: int, total: int, what: str) -> None:
            nonlocal shown
            if what != shown:  # its own clock, else the time left is reckoned from another part's pace
                progress.reset(task, description=what, total=total)
                shown = what
            progress.update(task, completed=done, total=total)

        yield show


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    return Progress("{task.description}", *columns, console=Console(stderr=True), transient=True)
