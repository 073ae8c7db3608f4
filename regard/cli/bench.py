"""`regard bench`: speed on this machine, compared with other toolkits that are installed."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard import registry
from regard.cli.options import Device, output_file
from regard.cli.terminal import Format, aligned, as_json, escape_control_characters, say
from regard.errors import UserError, suggestion

if TYPE_CHECKING:
    from regard.bench._benchmark import Benchmark, Row, Setting


def _names() -> dict[str, str]:
    """The names of benchmarks on the command line and their files: cold-start is cold_start."""
    return {kind.replace("_", "-"): kind for kind in registry.kinds("bench")}


def bench(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Benchmarks to run; default: all.", autocompletion=_names)
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the benchmarks.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small models and few rounds: a smoke test, not a measurement.")
    ] = False,
    device: Device = "auto",
    only: Annotated[str, typer.Option(metavar="TEXT", help="Measure only rows whose name contains TEXT.")] = "",
    source: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Input of translate-file and search; default: a generated text."),
    ] = None,
    target: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Reference translation of --source, for search.")
    ] = None,
    corpus: Annotated[
        Path | None, typer.Option(metavar="FILE.tsv", help="Pairs for the translation memory of search.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", callback=output_file, help="Also write the rows to this file, as JSON."
        ),
    ] = None,
    format: Annotated[Format, typer.Option(help="Tables, or one JSON value at the end.")] = Format.text,
    require: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=10**9,
            metavar="NUMBER",
            help="Exit with 1 if a ratio is below this number, or a time above it.",
        ),
    ] = None,
    memory: Annotated[
        float | None,
        typer.Option(min=0, max=10**9, metavar="MIB", help="Exit with 1 if our peak memory is above this."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress messages.")] = False,
) -> None:
    """Measure speed against other toolkits doing the same work, in turns, on this machine.

    Prints a table per benchmark. The ratio is ours over theirs, of medians: above 1, ours is faster.
    Benchmarks whose peer is not installed are skipped.
    """
    known = _names()
    for name in names or []:
        if name.replace("_", "-") not in known:
            raise UserError(f"no benchmark '{name}'{suggestion(name, known)}")
    if list_:
        return _list(known, format)
    if (require is not None or memory is not None) and len(names or []) != 1:
        raise UserError("--require and --memory judge one benchmark; name it")

    chosen = {name.replace("_", "-"): known[name.replace("_", "-")] for name in names or known}
    setting = _setting(device, quick, only, source, target, corpus, quiet)
    trees: list[dict[str, Any]] = []
    failing: list[str] = []
    try:
        for name, kind in chosen.items():
            try:
                benchmark, rows = _measured(kind, setting)
            except UserError as error:
                if names:
                    raise
                say(f"{name} is left out: {error}")
                continue
            told = _described(benchmark, setting)
            if format is Format.text:
                typer.echo(
                    escape_control_characters(
                        ", ".join([f"{name}: {benchmark.title}", *(f"{k} {v}" for k, v in told.items())])
                    )
                )
                typer.echo("\n".join(map(escape_control_characters, benchmark.table(rows).split("\n"))) + "\n")
            trees.append({"benchmark": name, "setting": told, "rows": benchmark.as_tree(rows)})
            failing += benchmark.failing(rows, require, memory)
            if output:
                _write(output, trees)  # after each one, as the next may take long
    except KeyboardInterrupt:
        say("stopped before the end")
        raise typer.Exit(130) from None
    if not trees:
        raise UserError("nothing was measured")
    if format is Format.json:
        typer.echo(as_json(trees))
    for line in failing:
        say(line)
    if failing:
        raise typer.Exit(1)


def _list(known: dict[str, str], format: Format) -> None:
    """Lists names and docstrings without importing the benchmarks."""
    rows = []
    for name, kind in known.items():
        file = registry.ROOT / "bench" / f"{kind}.py"
        doc = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) if file.is_file() else None
        rows.append((name, (doc or "").partition("\n")[0]))
    if format is Format.json:
        typer.echo(as_json([{"name": name, "measures": measures} for name, measures in rows]))
        return
    typer.echo("\n".join(map(escape_control_characters, aligned(rows))))


def _setting(
    device: str, quick: bool, only: str, source: Path | None, target: Path | None, corpus: Path | None, quiet: bool
) -> Setting:
    from regard.bench._benchmark import Setting
    from regard.device import pick_device

    for option, file in (("source", source), ("target", target), ("corpus", corpus)):
        if file and not file.is_file():
            raise UserError(f"--{option}: {file} does not exist; name another file")
    return Setting(pick_device(device), quick, only, source, target, corpus, (lambda line: None) if quiet else say)


def _measured(kind: str, setting: Setting) -> tuple[Benchmark, list[Row]]:
    import torch

    benchmark: Benchmark = registry.create("bench", kind)
    missing = [package for package in benchmark.needs if find_spec(package) is None]
    if missing:
        raise UserError(f"its peer is not installed; to compare with it: pip install {' '.join(missing)}")
    torch.manual_seed(0)
    rows = list(benchmark.rows(setting))
    if not rows:
        raise UserError(f"--only: no row of {kind.replace('_', '-')} has '{setting.only}' in its name")
    return benchmark, rows


def _described(benchmark: Benchmark, setting: Setting) -> dict[str, Any]:
    """The device and versions that the numbers depend on."""
    from importlib.metadata import version

    import torch

    device = setting.device
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "threads": torch.get_num_threads(),
        **{package: version(package) for package in ("torch", *benchmark.needs)},
        **({"quick": True} if setting.quick else {}),
    }


def _write(path: Path, trees: list[dict[str, Any]]) -> None:
    import json

    from regard.storage import write_file

    write_file(path, (json.dumps(trees, indent=1) + "\n").encode())
