"""What commands share that show a model some inputs: arguments, or lines of standard input, and one answer for each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from regard.cli.pipes import answer_lines
from regard.cli.terminal import harmless, one_line, say
from regard.cli.translate import writing_may_fail
from regard.errors import UserError


def answer(
    arguments: Sequence[str] | None,
    read: Callable[[str], Any],
    use: Callable[[list[Any]], list[str]],
    example: str,
    quiet: bool = False,
) -> None:
    """Writes what `use` says of each input, a line (or block) each: of the arguments, or of lines of standard input.

    `read` turns an argument into what the model takes, refusing what it cannot; an empty line stays empty.
    """
    if not arguments and sys.stdin is None:
        raise UserError(f"nothing was given and standard input is closed; write: {example}")

    def lines(texts: list[str], first: int) -> list[str]:
        given = [(i, read(text)) for i, text in enumerate(texts) if text.strip()]
        found = dict(zip([i for i, _ in given], use([raw for _, raw in given]))) if given else {}
        return [found.get(i, "") for i in range(len(texts))]

    with writing_may_fail():
        if arguments:
            for text in use([read(argument) for argument in arguments]):
                sys.stdout.buffer.write(shown(text).encode("utf-8", "replace") + b"\n")
            sys.stdout.buffer.flush()
        else:
            if sys.stdin.isatty() and not quiet:
                say("ready: one input a line, Ctrl-D ends")
            answer_lines(sys.stdin.fileno(), sys.stdout.buffer, lines, (lambda _: None) if quiet else say)


def shown(text: str) -> str:
    """Harmless where a person reads it; several lines stay several."""
    return "\n".join(map(harmless, text.split("\n"))) if sys.stdout.isatty() else text


def title(argument: str) -> str:
    """An argument as it is shown beside its answer: the name of a file, or the beginning of a text."""
    text = one_line(Path(argument).name if len(argument) < 500 and Path(argument).is_file() else argument)
    return text if len(text) <= 60 else text[:57] + "..."
