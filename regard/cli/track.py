"""`regard track`: the position of an object in every frame of a clip."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from regard.cli.inputs import answer, reader
from regard.cli.options import Device, Model, Quiet
from regard.cli.terminal import Format, as_json


def track(
    model: Model,
    clips: Annotated[
        list[str] | None, typer.Argument(metavar="FILE", help="Animated GIFs; without it, names on stdin.")
    ] = None,
    device: Device = "auto",
    format: Annotated[Format, typer.Option(help="One line per frame, or one JSON object per clip.")] = Format.text,
    quiet: Quiet = False,
) -> None:
    """Follow an object through clips.

    One line per frame: its number, x and y of the object from the left and the top, 0 to 1, and the expected error,
    which is larger where the object is hidden.
    """
    import regard

    task = regard.load(model, device=device, task="track")

    def use(raws: list[Any]) -> list[str]:
        found = task.track(raws)
        if format is Format.json:
            return [as_json({"places": one.places, "spreads": one.spreads}) for one in found]
        return ["\n".join(map(_line, range(1, len(one.places) + 1), one.places, one.spreads)) for one in found]

    answer(clips, reader(task, quiet), use, "regard track MODEL clip.gif", quiet)


def _line(number: int, place: tuple[float, float], spread: float) -> str:
    return f"{number}\t{place[0]:.4f}\t{place[1]:.4f}\t{spread:.4f}"
