"""The log writer: repeated lines, and a log that nobody reads."""

from __future__ import annotations

import os
import time

from regard.serving import log_writer
from regard.serving.log_writer import INTERVAL, LineRateLimit, LogWriter


def lines(descriptor: int) -> list[str]:
    return os.read(descriptor, 1 << 16).decode().splitlines()


def test_lines_are_written_in_order_and_to_the_end() -> None:
    read, write = os.pipe()
    writer = LogWriter(write)
    for number in range(100):
        writer.put(f"line {number} é\ud800")
    assert writer.close(5)
    assert lines(read) == [f"line {number} é\\ud800" for number in range(100)]


def test_so_many_lines_of_a_kind_are_written_in_an_interval_and_the_rest_are_counted() -> None:
    now = 0.0
    rate_limit = LineRateLimit(lambda: now)
    assert [rate_limit.allow("a", 2) for _ in range(5)] == [True, True, False, False, False]
    assert rate_limit.allow("b", 2)
    assert rate_limit.summaries() == []
    now = INTERVAL + 1
    assert rate_limit.summaries() == ["log: 3 more lines within 11 s of the kind: a"]
    assert rate_limit.allow("a", 2) and rate_limit.summaries(all_windows=True) == []


def test_kinds_that_are_told_apart_are_bounded() -> None:
    rate_limit = LineRateLimit(lambda: 0.0)
    written = sum(rate_limit.allow(f"kind {number}", 5) for number in range(10 * log_writer.MAX_KINDS))
    assert written <= log_writer.MAX_KINDS + 5


def test_what_does_not_fit_the_queue_is_dropped_and_counted() -> None:
    read, write = os.pipe()
    writer = LogWriter(write)
    start = time.monotonic()
    count = 3 * log_writer.MAX_QUEUED
    for number in range(count):
        writer.put(f"line {number}")
    assert time.monotonic() - start < 5, "nobody waits for a pipe that is full"
    assert not writer.close(0.1)
    assert writer.dropped > log_writer.MAX_QUEUED
    said: list[str] = []
    while not (said and "dropped" in said[-1]):
        said += lines(read)
    assert said[-1].startswith("log: ") and " lines dropped" in said[-1]


def test_a_reader_that_goes_away_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    writer = LogWriter(write)
    writer.put("line")
    assert writer.close(5)
