"""`regard caption`: describes pictures."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from regard.cli.inputs import answer, reader
from regard.cli.options import Beam, Device, JsonLines, Model, NBest, Quiet
from regard.cli.terminal import Format, as_json, one_line


def caption(
    model: Model,
    pictures: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="PNG, JPEG, GIF, BMP or WEBP; without it, names on stdin."),
    ] = None,
    beam: Beam = None,
    n_best: NBest = 1,
    scores: Annotated[bool, typer.Option("--scores", help="Add a column with the log-probability.")] = False,
    device: Device = "auto",
    format: JsonLines = Format.text,
    quiet: Quiet = False,
) -> None:
    """Describe pictures, one line each.

    Columns are separated by tabs: the picture's number (with --n-best), text, log-probability (with --scores).
    """
    import regard

    task = regard.load(model, device=device, task="caption")

    def use(raws: list[Any]) -> list[str]:
        return [written(one, format, scores) for one in task.caption(raws, beam=beam, n_best=n_best)]

    numbered = n_best > 1 and format is Format.text
    answer(pictures, reader(task, quiet), use, "regard caption MODEL photo.jpg", quiet, numbered)


def written(one: object, format: Format, scores: bool) -> str:
    """A generated text, with its alternatives below it."""
    from regard.task._writing import Written

    assert isinstance(one, Written)
    every = [one, *one.alternatives]
    if format is Format.json:
        tree = {
            "text": one.text,
            "log_probability": one.log_probability,
            "finished": one.finished,
            "tokens": [{"token": t, "probability": p} for t, p in zip(one.tokens, one.token_probabilities)],
            "alternatives": [{"text": w.text, "log_probability": w.log_probability} for w in one.alternatives],
        }
        return as_json(tree)
    return "\n".join(one_line(w.text) + (f"\t{w.log_probability:.4f}" if scores else "") for w in every)
