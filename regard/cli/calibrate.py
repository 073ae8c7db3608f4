"""`regard calibrate`: makes the confidences of a translator (`regard translate --doubt`) probabilities."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import Device, EngineName, From, JsonValue, Model, Quiet, To, output_file
from regard.cli.progress import progress_bar
from regard.cli.terminal import Engine, Format, as_json, say
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.calibrating import Measured


def calibrate(
    model: Model,
    source: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="Text that the model was not trained on; may be repeated.")
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Its reference translation, line by line; a .tsv may hold both."),
    ] = None,
    from_: From = None,
    to: To = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure the calibration that the model has; change nothing.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", callback=output_file, help="Also draw the diagram, as SVG."),
    ] = None,
    device: Device = "auto",
    engine: EngineName = Engine.auto,
    format: JsonValue = Format.text,
    quiet: Quiet = False,
) -> None:
    """Calibrate a translator's confidences on text with references; the result is kept in its folder.

    Prints the expected calibration error: of every fifth of the text, with a calibration made of the rest.
    """
    if not source:
        raise UserError(f"{model}: name text to calibrate on: regard calibrate {model} --source FILE --target FILE")
    if output is not None and output.suffix != ".svg":
        raise UserError(f"{output}: the diagram is an SVG; name it with .svg")

    from regard.data.corpus.reading import read_pairs
    from regard.directions import direction, is_multilingual
    from regard.find_model import find_model, recipe_of_translator

    recipe = recipe_of_translator(model)
    start, end = direction(recipe, from_, to)
    if is_multilingual(recipe) and not (start and end):
        raise UserError(f"{model} has several directions, each with a calibration; say which with --from and --to")
    pairs = list(read_pairs(source, target or [], kept=True))

    from regard.calibrating import cross_validated, examples_of, fit, measured
    from regard.engines import load_with
    from regard.storage import CALIBRATION, write_file

    translator = load_with(model, device, "translate", engine=engine)
    with progress_bar(len(pairs), enabled=not quiet) as advance:
        folds = examples_of(
            translator, [one for one, _ in pairs], [other for _, other in pairs], start or None, end or None, advance
        )
    known = translator.calibrations.for_direction(start, end)
    if measure:
        if known.generic and not quiet:
            say(f"{model} has no calibration for this direction; measured is the generic one")
        found = measured(folds, known)
    else:
        found = cross_validated(folds)
        place = find_model(model) / CALIBRATION
        write_file(place, translator.calibrations.with_one(start, end, fit(folds)).to_json())
        if not quiet:
            say(f"written to {place}")
    if output is not None:
        output.write_text(found.draw(f"{model}, {start}-{end}" if start and end else model).svg(), encoding="utf-8")
    print(as_json(_tree(found)) if format is Format.json else _report(found))


def _tree(found: Measured) -> dict[str, Any]:
    return {
        name: {
            "count": one.count,
            "right": one.right,
            "calibration_error": one.error,
            "auc": one.auc,
            "bins": [some._asdict() for some in one.bins],
        }
        for name, one in (("words", found.words), ("sentences", found.sentences))
    }


def _report(found: Measured) -> str:
    return "\n".join(
        f"{name}: {one.count:,}, {one.right:.1%} right, expected calibration error {one.error:.3f}"
        + (f", AUC {one.auc:.3f}" if one.auc is not None else "")
        for name, one in (("words", found.words), ("sentences", found.sentences))
    )
