"""Reads lines from stdin in batches: all complete lines that have arrived are answered before more are read.

So a program that writes one line and waits gets its answer, and a large file is processed in large batches.
"""

from __future__ import annotations

import os
import select
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, BinaryIO

from regard.data.corpus.reading import decode_line
from regard.errors import UserError

__all__ = ["answer_lines", "arriving_lines", "decode_line"]

PIECE = 1 << 16
LONGEST_LINE = 1 << 26
"""Bytes. More than in files, because stdin is not decompressed."""
CHUNK = 1 << 18
"""Bytes after which a batch is answered: some thousand lines."""
PATIENCE = 0.02
"""Seconds to wait for more after a large read: a writer that filled the pipe will probably fill it again."""


def answer_lines(
    stdin: int,
    stdout: BinaryIO,
    answer: Callable[[list[str], int], list[str]],
    warn: Callable[[str], None] = lambda message: None,
    ahead: int = 1,
) -> int:
    """Writes `answer(texts, number of the first line)` for every batch of lines; returns the number of lines.

    `ahead` batches are answered at a time, each by its own thread; they are written in order.
    """
    count = 0
    running: deque[tuple[int, Future[list[str]]]] = deque()

    def write() -> None:
        lines, answered = running.popleft()
        outputs = answered.result()
        if len(outputs) != lines:
            raise RuntimeError(f"{lines} lines came in but {len(outputs)} would go out")
        stdout.write("".join(f"{output}\n" for output in outputs).encode("utf-8", "replace"))
        stdout.flush()

    with ThreadPoolExecutor(ahead) if ahead > 1 else InThisThread() as pool:
        for lines in arriving_lines(stdin):
            texts = [decode_line(line, number, warn) for number, line in enumerate(lines, count + 1)]
            running.append((len(lines), pool.submit(answer, texts, count + 1)))
            count += len(lines)
            if len(running) >= ahead:
                write()
        while running:
            write()
    return count


class InThisThread(Executor):
    """Runs what is submitted at once."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(function(*arguments, **options))
        return done


def arriving_lines(stdin: int) -> Iterator[list[bytes]]:
    """Batches of the lines that have arrived, without their `\\n`; the last line may lack it."""
    pieces: list[bytes] = []
    size = 0
    whole = False
    count = 0
    while True:
        piece = os.read(stdin, PIECE)
        pieces.append(piece)
        size += len(piece)
        whole = whole or b"\n" in piece
        if not whole and size > LONGEST_LINE:
            raise UserError(f"line {count + 1} has more than {LONGEST_LINE:,} bytes, the maximum; split it")
        if piece and (not whole or (size < CHUNK and _more_waits(stdin, PATIENCE if size >= PIECE // 2 else 0))):
            continue
        *lines, rest = b"".join(pieces).split(b"\n")
        if rest and not piece:
            lines.append(rest)
        if lines:
            yield lines
        count += len(lines)
        if not piece:
            return
        pieces, size, whole = [rest], len(rest), False


def _more_waits(stdin: int, seconds: float) -> bool:
    if os.name == "nt":  # select only supports sockets there; one read takes all that is in the pipe
        return False
    return bool(select.select([stdin], [], [], seconds)[0])
