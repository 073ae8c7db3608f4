"""`regard track`: where the object is in every frame of a clip."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.cli.inputs import answer
from regard.cli.models import model_names
from regard.cli.terminal import Format, as_json


def track(
    model: Annotated[str, typer.Argument(help="A model folder or a run.", autocompletion=model_names)],
    clips: Annotated[
        list[str] | None, typer.Argument(metavar="FILE", help="Animated GIFs; without it, names on stdin.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")] = "auto",
    format: Annotated[Format, typer.Option(help="A line a frame, or one JSON object a clip.")] = Format.text,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No hints.")] = False,
) -> None:
    """Follow an object through clips.

    A line a frame: its number, x and y of the object from the left and the top, 0 to 1, and how unsure that is.
    """
    import regard

    task = regard.load(model, device=device, task="track")

    def use(raws: list[object]) -> list[str]:
        found = task.track(raws)
        if format is Format.json:
            return [as_json({"places": one.places, "spreads": one.spreads}) for one in found]
        return [
            "\n".join(f"{i}\t{x:.4f}\t{y:.4f}\t{s:.4f}" for i, ((x, y), s) in enumerate(zip(one.places, one.spreads), 1))
            for one in found
        ]

    answer(clips, task.pair.input.read, use, "regard track MODEL clip.gif", quiet)
