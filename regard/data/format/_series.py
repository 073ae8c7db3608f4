"""The target of time series: which rows to forecast. Series are split by time, never shuffled."""

from __future__ import annotations

from typing import NamedTuple


class Span(NamedTuple):
    """The `target` of a series: the rows to forecast, and the names of the columns."""

    begin: int
    """The first row that may be forecast; earlier rows are only context."""
    columns: tuple[str, ...]
