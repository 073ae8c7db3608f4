"""`regard doctor`: versions and devices, for bug reports."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from pathlib import Path

import typer

import regard
from regard import __version__
from regard.cli.options import JsonValue
from regard.cli.terminal import Format, as_json, escape_control_characters

PACKAGES = [
    "torch",
    "ctranslate2",
    "numpy",
    "sentencepiece",
    "safetensors",
    "sacrebleu",
    "typer",
    "rich",
    "jaxtyping",
    "matplotlib",
    "zstandard",
]
TRANSFORMER = {
    "kind": "seq2seq",
    "stem": {"kind": "tokens", "position": "sinusoidal"},
    "encoder": {"kind": "transformer", "activation": "relu"},
    "decoder": {"kind": "transformer", "activation": "relu", "position": "sinusoidal"},
}
OPTIONAL = ["tensorboard", "sacremoses"]


def doctor(format: JsonValue = Format.text) -> None:
    """Show versions, devices, threads and models."""
    from regard.pretrained import shipped_models

    found = [("regard", f"{__version__} ({Path(regard.__file__).parent})")]
    found += [("python", f"{platform.python_version()} ({sys.executable})"), ("system", platform.platform())]
    found += [(name, _version(name)) for name in [*PACKAGES, *OPTIONAL]]
    devices, shipped = _devices(), shipped_models()
    found.append(("engine", _engine()))
    runs = [str(manifest.parent.parent) for manifest in sorted(Path().glob("runs/*/model/manifest.json"))]
    if format is Format.json:
        lists = {"devices": devices, "models": {name: str(folder) for name, folder in shipped.items()}, "runs": runs}
        typer.echo(as_json(dict(found) | lists))
        return
    found += [("device", device) for device in devices]
    found += [("model", f"{name} ({folder})") for name, folder in shipped.items()]
    found += [("run", run) for run in runs]
    for name, value in found:
        typer.echo(escape_control_characters(f"{name:14}{value}"))


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed (optional)" if package in OPTIONAL else "not installed"


def _engine() -> str:
    """What translates with --engine auto, and why."""
    from regard.config import Recipe
    from regard.engines import choose

    try:
        choice = choose(Recipe(model=TRANSFORMER))
    except Exception as error:  # this command must work even if torch does not
        return f"cannot be chosen: {error}"
    return f"{choice.engine} for Transformers that translate ({choice.why}); torch for all else"


def _devices() -> list[str]:
    try:
        import torch
    except Exception as error:  # this command must work even if torch does not
        return [f"torch cannot be imported: {error}"]
    lines = [f"cpu: {os.cpu_count()} cores, {torch.get_num_threads()} threads"]
    for index in range(torch.cuda.device_count()):
        found = torch.cuda.get_device_properties(index)
        lines.append(f"cuda:{index}: {found.name}, {found.total_memory / 2**30:.0f} GiB")
    if torch.backends.mps.is_available():
        lines.append("mps")
    return lines
