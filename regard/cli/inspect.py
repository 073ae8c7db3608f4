"""`regard inspect`: record a trace of a model on one input and write it as a picture, a page or JSON."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import MOST, Beam, Device, From, LengthPenalty, MaxLength, Model, To, output_file
from regard.cli.progress import parts_bar
from regard.cli.terminal import one_line, say
from regard.errors import UserError, suggestion
from regard.registry import kinds

if TYPE_CHECKING:
    from regard.inspection.trace.base import Trace

VIEWS = [
    "alignment",
    "map",
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
    "what-if",
    "logit-lens",
    "near",
    "why",
]
"""For shell completion; which of them a model has depends on its architecture."""
ENDINGS = (".html", ".svg", ".png", ".json")


class Of(enum.StrEnum):
    cross = "cross"
    source = "source"
    target = "target"


def inspect(
    model: Model,
    given: Annotated[str, typer.Argument(metavar="INPUT", help="A text, or an image or sound file.")],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            callback=output_file,
            help=".html (a page by itself), .svg, .png, or .json: all numbers.",
        ),
    ],
    view: Annotated[
        str, typer.Option(help="The view to draw; which there are depends on the model.", autocompletion=lambda: VIEWS)
    ] = "",
    layer: Annotated[int | None, typer.Option(min=0, max=MOST, help="Heads or gates of this layer, from 0.")] = None,
    head: Annotated[
        int | None, typer.Option(min=0, max=MOST, help="This head, from 0; without it .svg and .png show all heads.")
    ] = None,
    attention: Annotated[
        Of, typer.Option(help="The kind of attention: cross-attention, or self-attention of source or target.")
    ] = Of.cross,
    position: Annotated[
        int | None,
        typer.Option(min=0, max=MOST, help="The index of the query, output, step, position or word, from 0."),
    ] = None,
    unit: Annotated[int | None, typer.Option(min=0, max=MOST, help="Follow this unit of a recurrent layer.")] = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="Align the model's tokens, not words.")] = False,
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PART",
            help="What if: switch off encoder.0, decoder.1.cross, encoder.0.self.head.3, encoder.embedding@2, ... "
            "Repeatable.",
        ),
    ] = None,
    mean: Annotated[
        bool, typer.Option("--mean", help="What if: replace it by its mean over the text instead of zeros.")
    ] = False,
    patch: Annotated[
        list[str] | None,
        typer.Option(metavar="PART", help="What if: take this part's values from the --other sentence. Repeatable."),
    ] = None,
    other: Annotated[str, typer.Option(metavar="TEXT", help="What if: the other sentence.")] = "",
    index: Annotated[
        str, typer.Option(metavar="FILE", help="Near: an index other than the one that regard index keeps.")
    ] = "",
    method: Annotated[
        str,
        typer.Option(
            help="The view why: input_x_gradient, integrated_gradients, occlusion, value_zeroing, rollout.",
            autocompletion=lambda: kinds("inspection/record/attribution"),
        ),
    ] = "occlusion",
    contrast: Annotated[
        str, typer.Option(metavar="WORD", help="The view why: why the output at --position and not this one?")
    ] = "",
    beam: Beam = None,
    length_penalty: LengthPenalty = None,
    max_length: MaxLength = None,
    from_: From = None,
    to: To = None,
    temperature: Annotated[
        float | None, typer.Option(min=0.01, max=100, help="Sampling temperature: below 1 safer, above 1 bolder.")
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(min=0, max=MOST, help="Sample from the k most likely tokens only.")
    ] = None,
    top_p: Annotated[
        float | None, typer.Option(min=0.001, max=1, help="Sample from the fewest tokens this likely together.")
    ] = None,
    device: Device = "auto",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not say what was written where.")] = False,
) -> None:
    """Inspect a model on one input: its attention, beam search, gates, gradients and every number."""
    if output.suffix.lower() not in ENDINGS:
        raise UserError(f"{output}: an output file ends in {', '.join(ENDINGS)}; give it such a name")
    if view and view not in VIEWS:
        raise UserError(f"--view: no view '{view}'{suggestion(view, VIEWS)}")
    if view != "what-if" and (without or patch or other or mean):
        raise UserError("--without, --mean, --patch and --other are for --view what-if")
    from regard.inspection.inspect import inspect as record_trace
    from regard.inspection.record.attribution._progress import on_progress
    from regard.storage import write_file

    options = {
        "beam": beam,
        "length_penalty": length_penalty,
        "max_length": max_length,
        "source": None if from_ == "auto" else from_,
        "target": to,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
    }
    given_options = {name: value for name, value in options.items() if value is not None}
    trace = record_trace(model, given, device=device, **given_options)
    choice: dict[str, Any] = {
        "layer": layer,
        "head": head,
        "attention": attention.value,
        "tokens": tokens,
        "position": position,
        "unit": unit,
    }
    choice |= {"without": without or [], "mean": mean, "patch": patch or [], "other": other, "index": index}
    choice |= {"method": method, "contrast": contrast}
    with parts_bar(not quiet) as show, on_progress(lambda done, most: show(done, most, method)):
        written = content(trace, output.suffix.lower(), view, choice)
    write_file(output, written)
    if not quiet:
        say(f"{output}: {one_line(trace.texts()[-1].text)}")


def content(trace: Trace, ending: str, view: str, choice: dict[str, Any]) -> bytes:
    """The content of the file. JSON holds all numbers, or those of the view that is named."""
    if ending == ".json":
        return (trace.json(trace.view(view, **choice).parts) if view else trace.json()).encode() + b"\n"
    if ending == ".png":
        import io

        import matplotlib

        file = io.BytesIO()
        with matplotlib.rc_context():
            matplotlib.rcdefaults()  # ignore a `matplotlibrc` in the current folder, which can make it run LaTeX
            trace.figure(view, **choice).savefig(file, format="png", dpi=160, metadata={"Software": None})
        return file.getvalue()
    return (trace.svg(view, **choice) if ending == ".svg" else trace.html(view, **choice)).encode()
