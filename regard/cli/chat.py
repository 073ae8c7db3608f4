"""`regard chat`: a conversation with a language model that was trained on some."""

from __future__ import annotations

import secrets
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import (
    ComputedInFloat32,
    Device,
    Model,
    Quiet,
    RepetitionPenalty,
    Seed,
    Stop,
    Temperature,
    TokenLimit,
    TopK,
    TopP,
    own_precision,
)
from regard.cli.terminal import Precision, say, shown
from regard.cli.translate import writing_may_fail
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.task.generate import Generator

LONGEST_LINE = 1_000_000


def chat(
    model: Model,
    message: Annotated[
        str, typer.Argument(metavar="TEXT", help="One message to answer; without it, every line of the input is one.")
    ] = "",
    system: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="What the model is told first; default: as in its training."),
    ] = None,
    length: TokenLimit = None,
    temperature: Temperature = 0.7,
    top_k: TopK = 0,
    top_p: TopP = 0.95,
    repetition_penalty: RepetitionPenalty = 1.0,
    stop: Stop = None,
    seed: Seed = None,
    device: Device = "auto",
    precision: ComputedInFloat32 = Precision.float32,
    quiet: Quiet = False,
) -> None:
    """Talk to a language model that was trained to answer.

    Answers are streamed. The model sees the whole conversation, as far as it fits its context.
    """
    import regard

    task: Generator = regard.load(model, device=device, task="generate", precision=own_precision(precision))
    if not task.recipe.decoding.chat:
        raise UserError(f"{model}: has no chat format, or none that is known here; use: regard generate")
    options: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "stop": stop or ()}
    options |= {"repetition_penalty": repetition_penalty, "length": length}
    told = [] if system is None else [("system", system)]
    first = secrets.randbelow(2**31) if seed is None else seed
    with writing_may_fail():
        if message:
            _answer(task, [*told, ("user", message)], first, options)
            return
        by_hand = sys.stdin.isatty() and not quiet
        if by_hand:
            say("a line is a message; an empty one, or Ctrl-D, ends the conversation")
        for number, text in enumerate(_lines(by_hand)):
            told.append(("user", text))
            told.append(("assistant", _answer(task, told, first + number, options)))


def _lines(by_hand: bool) -> Any:
    while True:
        if by_hand:
            sys.stderr.write("> ")
            sys.stderr.flush()
        line = sys.stdin.buffer.readline(LONGEST_LINE + 1)
        if len(line) > LONGEST_LINE:
            raise UserError(f"a message of more than {LONGEST_LINE:,} bytes is not read")
        text = line.decode("utf-8", "replace").strip()
        if not text:
            return
        yield text


def _answer(task: Generator, told: list[tuple[str, str]], seed: int, options: dict[str, Any]) -> str:
    out, parts = sys.stdout.buffer, list[str]()
    for piece in task.chat(told, seed=seed, **options):
        if piece.text:
            parts.append(piece.text)
            out.write(shown(piece.text).encode("utf-8", "replace"))
            out.flush()
    out.write(b"\n")
    out.flush()
    return "".join(parts)
