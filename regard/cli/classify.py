"""`regard classify`: labels with probabilities."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from regard.cli.inputs import answer, reader
from regard.cli.options import MOST, Device, JsonLines, Model, Quiet
from regard.cli.terminal import Format, as_json


def classify(
    model: Model,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="INPUT", help="A text, or a file (picture, clip, .csv); without it, lines of stdin."),
    ] = None,
    top: Annotated[int, typer.Option(min=1, max=MOST, help="Labels shown per input, most probable first.")] = 3,
    device: Device = "auto",
    format: JsonLines = Format.text,
    quiet: Quiet = False,
) -> None:
    """Classify texts, pictures, clips or series.

    One line for each input: the label and its probability, then the next ones, separated by tabs.
    """
    import regard

    task = regard.load(model, device=device, task="classify")

    def use(raws: list[Any]) -> list[str]:
        found = task.classify(raws)
        if format is Format.json:
            return [as_json({"label": one.label, "probabilities": one.probabilities}) for one in found]
        return ["\t".join(f"{n}\t{p:.4f}" for n, p in list(one.probabilities.items())[:top]) for one in found]

    answer(inputs, reader(task, quiet), use, "regard classify MODEL 'a text'", quiet)
