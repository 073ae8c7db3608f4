"""Options that several commands share: name, range and help in one place."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.models import model_names
from regard.cli.terminal import Engine, Format, Precision

MOST_BEAMS, MOST_TOKENS, MOST_BATCH = 1000, 10_000, 1 << 18
"""The same limits as in recipes (recipe.py)."""
MOST = 1_000_000
"""Upper limit of counts that only affect output."""
LARGEST_SEED = (1 << 63) - 1


def device_name(name: str | None) -> str | None:
    """Checks the spelling of a device before torch is imported."""
    if name is None or re.fullmatch(r"auto|cpu|mps|cuda(:[0-9]{1,3})?", name):
        return name
    raise typer.BadParameter(f"device '{name}' is not known; use auto, cpu, cuda, cuda:1 or mps")


def _check_place(path: Path) -> None:
    """Refuses a path below something that is no folder, or below one that cannot be written to."""
    above = path.absolute().parent
    while not above.exists():
        above = above.parent
    if not above.is_dir():
        raise typer.BadParameter(f"{above} is a file, so nothing can be written below it")
    if not os.access(above, os.W_OK | os.X_OK):
        raise typer.BadParameter(f"{above} cannot be written to; choose another folder")


def output_file(path: Path | None) -> Path | None:
    """Refuses a file that cannot be written, before any work."""
    if path is not None:
        if path.is_dir():
            raise typer.BadParameter(f"{path} is a folder; name a file")
        _check_place(path)
    return path


def output_folder(path: Path | None) -> Path | None:
    """Refuses a folder that cannot be made, before any work."""
    if path is not None:
        if path.exists() and not path.is_dir():
            raise typer.BadParameter(f"{path} is a file; name a folder")
        _check_place(path)
    return path


def language_code(code: str | None) -> str | None:
    from regard.cli.command import LANGUAGE

    if code is None or code == "auto" or LANGUAGE.fullmatch(code):
        return code
    raise typer.BadParameter(f"'{code}' is not a language code; use one such as fr or zh-Hans")


def language_codes(codes: list[str] | None) -> list[str] | None:
    for code in codes or []:
        language_code(code)
    return codes


Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A shipped or imported model, a model folder, a run, or hf:NAME.",
        autocompletion=model_names,
    ),
]
EnsembleModels = Annotated[
    list[str] | None,
    typer.Option(
        "--ensemble",
        metavar="MODEL",
        help="A further translator whose probabilities are averaged with the model's; may be repeated, as may -m.",
        autocompletion=model_names,
    ),
]
Device = Annotated[str, typer.Option(callback=device_name, help="auto, cpu, cuda, cuda:1 or mps.")]
OptionalDevice = Annotated[str | None, typer.Option(callback=device_name, help="auto, cpu, cuda, cuda:1 or mps.")]
ComputedIn = Annotated[Precision, typer.Option(help="Precision of the computation; auto is the fastest on the device.")]
EngineName = Annotated[
    Engine, typer.Option("--engine", help="What computes it: auto takes ctranslate2 for translators on a CPU.")
]
JsonLines = Annotated[Format, typer.Option(help="Plain text, or one JSON object per line.")]
JsonValue = Annotated[Format, typer.Option(help="Plain text, or one JSON value.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say which engine is used, and why.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, hints or warnings.")]

Beam = Annotated[int | None, typer.Option(min=1, max=MOST_BEAMS, help="Beam width; 1 is greedy.")]
NBest = Annotated[int, typer.Option(min=1, max=MOST_BEAMS, help="Outputs per input, best first, each on its own line.")]
LengthPenalty = Annotated[float | None, typer.Option(min=0, max=10, help="0 favours short output, 1 long output.")]
MaxLength = Annotated[int | None, typer.Option(min=1, max=MOST_TOKENS, help="Maximum tokens of an output.")]
BatchTokens = Annotated[int | None, typer.Option(min=1, max=MOST_BATCH, help="Tokens per batch.")]
GlossaryFile = Annotated[
    Path | None,
    typer.Option(
        "--glossary",
        metavar="FILE",
        dir_okay=False,
        help="Terms and how to translate them: lines of TERM, TRANSLATION and must or prefer, separated by tabs.",
    ),
]

Data = Annotated[Path, typer.Option(metavar="FOLDER", envvar="REGARD_DATA", help="The folder of data sets.")]
From = Annotated[
    str | None,
    typer.Option("--from", metavar="CODE", callback=language_code, help="The language of the source, such as fr."),
]
To = Annotated[
    str | None,
    typer.Option("--to", metavar="CODE", callback=language_code, help="The language of the target, such as en."),
]

# Of language models.
Temperature = Annotated[float, typer.Option(min=0.01, max=100, help="Below 1 safer, above 1 bolder.")]
TopK = Annotated[
    int, typer.Option(min=0, max=MOST, help="Sample from the k most probable tokens; 1 is greedy, 0 is off.")
]
TopP = Annotated[
    float, typer.Option(min=0.001, max=1, help="Sample from the fewest tokens that hold this probability.")
]
RepetitionPenalty = Annotated[
    float, typer.Option(min=0.1, max=10, help="Above 1, tokens that are there already become less likely.")
]
Stop = Annotated[
    list[str] | None, typer.Option(metavar="TEXT", help="End before this text; may be given several times.")
]
Seed = Annotated[int | None, typer.Option(min=0, max=LARGEST_SEED, help="The same seed gives the same text.")]
TokenLimit = Annotated[
    int | None,
    typer.Option(min=0, max=MOST, help="Maximum tokens, 0: unlimited; default: the recipe's."),
]
ComputedInFloat32 = Annotated[
    Precision, typer.Option(help="Precision of the computation: int8 is faster on many CPUs, bfloat16 on GPUs.")
]


def own_precision(precision: Precision) -> str:
    """For `regard.load`: float32 is what it does by itself, with the model's own numbers to the last bit."""
    return "" if precision is Precision.float32 else precision.value
