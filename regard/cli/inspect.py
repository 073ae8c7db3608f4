"""`regard inspect`: what a model did with a sentence, as a picture, a page or numbers."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.models import model_names
from regard.cli.terminal import one_line, say
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.inspection.shown import Shown

VIEWS = [
    "alignment",
    "heads",
    "steps",
    "numbers",
    "positions",
    "beam",
    "gates",
    "gradients",
    "ponder",
    "next",
    "answer",
    "patches",
]
"""For shell completion; a model has those that it has something for."""
ENDINGS = (".html", ".svg", ".png", ".json")


class Of(enum.StrEnum):
    cross = "cross"
    source = "source"
    target = "target"


def inspect(
    model: Annotated[str, typer.Argument(help="A shipped model, a model folder or a run.", autocompletion=model_names)],
    given: Annotated[str, typer.Argument(metavar="INPUT", help="A sentence, or the file of a picture.")],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="FILE", help=".html (a page by itself), .svg, .png, or .json: all numbers."
        ),
    ],
    view: Annotated[
        str, typer.Option(help="What to see; which there are depends on the model.", autocompletion=lambda: VIEWS)
    ] = "",
    layer: Annotated[int | None, typer.Option(min=0, help="Heads or gates of this layer, from 0.")] = None,
    head: Annotated[
        int | None, typer.Option(min=0, help="This head, from 0; without it .svg and .png show all.")
    ] = None,
    attention: Annotated[
        Of, typer.Option(help="Whose head: target to source (cross), or a text to itself.")
    ] = Of.cross,
    position: Annotated[int | None, typer.Option(min=0, help="Numbers of this row or step, from 0.")] = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="Align the model's tokens, not words.")] = False,
    beam: Annotated[int | None, typer.Option(help="Hypotheses kept while searching; 1 is greedy.")] = None,
    length_penalty: Annotated[float | None, typer.Option(help="0 favours short output, 1 long output.")] = None,
    max_length: Annotated[int | None, typer.Option(help="Most tokens of the output.")] = None,
    temperature: Annotated[
        float | None, typer.Option(help="What may come next: below 1 safer, above 1 bolder; 0.01 to 100.")
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="What may come next: the k likeliest tokens only.")] = None,
    top_p: Annotated[float | None, typer.Option(help="What may come next: the fewest that are so likely.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")] = "auto",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not say what was written where.")] = False,
) -> None:
    """See what a model did with a sentence or a picture: where it looked, what it searched, what its gates did."""
    if out.suffix.lower() not in ENDINGS:
        raise UserError(f"{out}: what is written ends in {', '.join(ENDINGS)}; give it such a name")
    from regard.looking import inspect as look
    from regard.storage import write_file

    asked = {
        "beam": beam,
        "length_penalty": length_penalty,
        "max_length": max_length,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
    }
    seen = look(model, given, device=device, **{name: value for name, value in asked.items() if value is not None})
    choice = {"layer": layer, "head": head, "attention": attention.value, "tokens": tokens, "position": position}
    write_file(out, content(seen, out.suffix.lower(), view, choice))
    if not quiet:
        say(f"{out}: {one_line(seen.texts()[-1].text)}")


def content(seen: Shown, ending: str, view: str, choice: dict[str, Any]) -> bytes:
    """What the file holds. Numbers are all there are, unless a view is named: then those it shows."""
    if ending == ".json":
        return (seen.json(seen.view(view, **choice).parts) if view else seen.json()).encode() + b"\n"
    if ending == ".png":
        import io

        import matplotlib

        file = io.BytesIO()
        with matplotlib.rc_context():
            matplotlib.rcdefaults()  # it has read a `matplotlibrc` in the current folder, which can make it run LaTeX
            seen.figure(view, **choice).savefig(file, format="png", dpi=160, metadata={"Software": None})
        return file.getvalue()
    return (seen.svg(view, **choice) if ending == ".svg" else seen.html(view, **choice)).encode()
