"""`regard tag`: marks names in texts, or regions in DNA."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from regard.cli.inputs import answer
from regard.cli.options import Device, JsonLines, Model
from regard.cli.terminal import Format, as_json, one_line

__all__ = ["tag"]


def tag(
    model: Model,
    inputs: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="A text, or DNA; without it, lines of stdin.")
    ] = None,
    words: Annotated[
        bool, typer.Option("--words", help="The text is already tokenised: spaces separate its words.")
    ] = False,
    device: Device = "auto",
    format: JsonLines = Format.text,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No hints.")] = False,
) -> None:
    """Mark names in texts, or regions in DNA.

    One line per text, with the names in brackets. JSON has every word with its tag and probability, and the start and
    end of each name.
    """
    import regard

    task = regard.load(model, device=device, task="tag")

    def read(text: str) -> object:
        raw = task.pair.input.read(text)
        return raw.split() if words else raw

    def use(raws: list[Any]) -> list[str]:
        found = task.tag(raws)
        return [as_json(asdict(one)) if format is Format.json else one_line(str(one)) for one in found]

    answer(inputs, read, use, "regard tag MODEL 'a text'", quiet)
