"""Progress bars on stderr, shown only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress


@contextmanager
def progress_bar(total: int | None, enabled: bool = True, what: str = "translating") -> Iterator[Callable[[int], None]]:
    """Yields a function to call with the number of lines finished since the last call."""
    if not enabled or not sys.stderr.isatty():
        yield lambda lines: None
        return
    with _bar() as progress:
        task = progress.add_task(what, total=total)
        yield lambda lines: progress.advance(task, lines)


@contextmanager
def parts_bar(enabled: bool = True) -> Iterator[Callable[[int, int, str], None]]:
    """Yields a function to call with (done, total, description); a new description starts a new bar."""
    if not enabled or not sys.stderr.isatty():
        yield lambda done, total, what: None
        return
    with _bar() as progress:
        task = progress.add_task("", total=None)
        shown = ""

        def show(done: int, total: int, what: str) -> None:
            nonlocal shown
            if what != shown:  # restart the clock, or the time left would follow the pace of the previous part
                progress.reset(task, description=what, total=total)
                shown = what
            progress.update(task, completed=done, total=total)

        yield show


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    return Progress("{task.description}", *columns, console=Console(stderr=True), transient=True)
