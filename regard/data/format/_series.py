"""What formats of series tell beside the numbers. A series is cut by time and never dealt out."""

from __future__ import annotations

from typing import NamedTuple


class Span(NamedTuple):
    """The `target` of a series: which of its rows are to be forecast, and what its columns are called."""

    begin: int
    """The first row that may be wanted; those before it are only looked at."""
    columns: tuple[str, ...]
