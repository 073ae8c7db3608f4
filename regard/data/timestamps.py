"""Extrapolates the timestamps of a time series, in the format of the file."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

FORMS = (
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%dT%H:%M",
    "%Y-%m-%d",
    "%Y/%m/%d %H:%M",
    "%Y/%m/%d",
    "%Y-%m",
    "%Y",
)
"""Only formats in which day and month cannot be confused."""


def next_timestamps(times: Sequence[str], count: int) -> list[str] | None:
    """The next `count` timestamps; None if their format is unknown or their steps differ."""
    if len(times) < 3:
        return None
    for form in FORMS:
        try:
            read = [datetime.strptime(time, form) for time in times]
        except ValueError:
            continue
        return _next(read, count, form)
    return None


def _next(times: list[datetime], count: int, form: str) -> list[str] | None:
    months = [12 * time.year + time.month - 1 for time in times]
    jump, step = months[1] - months[0], times[1] - times[0]
    same = all(time.replace(year=1, month=1) == times[0].replace(year=1, month=1) for time in times)
    try:
        if same and jump > 0 and all(b - a == jump for a, b in zip(months, months[1:])):  # years differ in days
            after = [divmod(months[-1] + jump * n, 12) for n in range(1, count + 1)]
            return [times[-1].replace(year=year, month=month + 1).strftime(form) for year, month in after]
        if step.total_seconds() > 0 and all(b - a == step for a, b in zip(times, times[1:])):
            return [(times[-1] + step * n).strftime(form) for n in range(1, count + 1)]
    except (ValueError, OverflowError):  # no such date, such as the 31st of a short month
        pass
    return None
