"""`regard ablate`: BLEU without each head, or each layer, of a translator."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.options import MOST, Beam, Data, Device, From, JsonValue, Model, Quiet, To
from regard.cli.progress import progress_bar
from regard.cli.terminal import Format, as_json
from regard.errors import UserError


def ablate(
    model: Model,
    source: Annotated[str | None, typer.Option(metavar="FILE", help="Text to translate.")] = None,
    target: Annotated[
        str | None, typer.Option(metavar="FILE", help="Its reference translation, line by line; a .tsv may hold both.")
    ] = None,
    data: Data = Path("data"),
    layers: Annotated[bool, typer.Option("--layers", help="Without each layer, instead of each head.")] = False,
    mean: Annotated[
        bool, typer.Option("--mean", help="Replace a part by its mean over the first 100 pairs, instead of zeros.")
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, max=MOST, help="Use the first lines only.")] = None,
    beam: Beam = None,
    from_: From = None,
    to: To = None,
    device: Device = "auto",
    format: JsonValue = Format.text,
    quiet: Quiet = False,
) -> None:
    """Score a translator without each of its attention heads: which of them does it need?

    Each head is switched off by itself, and the whole text is translated anew. A line is printed as soon as it is
    known: the part, BLEU, the difference to the whole model, and how many translations changed.
    """
    if source is None:
        raise UserError(f"name the text and its translation: regard ablate {model} --source FILE --target FILE")

    from regard.evaluating import check_files, read_texts
    from regard.inspection.ablation import ablate as without_each
    from regard.inspection.ablation import parts_to_ablate
    from regard.loading import load

    sources, references = read_texts(check_files([source] if target is None else [source, target], data))
    sources, references = sources[:limit], references[:limit]
    if not sources:
        raise UserError(f"{source}: has no lines")
    translator = load(model, device, "translate")
    options: dict[str, Any] = {"beam": beam, "source": None if from_ == "auto" else from_, "target": to}
    options = {name: value for name, value in options.items() if value is not None}
    total = len(sources) * (1 + len(parts_to_ablate(translator, layers)))
    found = []
    with progress_bar(total, enabled=not quiet) as advance:
        for one in without_each(translator, sources, references, layers, mean, advance, **options):
            found.append(asdict(one))
            if format is Format.text:
                if not one.part:
                    typer.echo(f"{'without':<28} {'BLEU':>6} {'change':>7} {'translations changed':>21}")
                    typer.echo(f"{'nothing':<28} {one.bleu:6.2f} {'':>7} {'':>21}")
                else:
                    share = f"{one.changed:,} of {len(sources):,}"
                    typer.echo(f"{one.part:<28} {one.bleu:6.2f} {one.difference:+7.2f} {share:>21}")
    if format is Format.json:
        typer.echo(as_json({"model": model, "lines": len(sources), "ablations": found}))
