"""Counts the files and lines one has to open to follow a forward pass, a beam search, `regard.load` or a training step.

A closure is what one reaches from some modules by following imports of ours at module level. Imports inside functions
and under TYPE_CHECKING are not followed (`--everywhere` follows them). All lines of a file count. Each of the four
closures below says where it starts and what it leaves out because its name says enough. When this script was written it
counted 1,110 / 2,120 / 4,992 / 2,935 lines.

    python tools/reading_closure.py                       the four closures; --files lists their files
    python tools/reading_closure.py regard.decoding.beam  the closure of modules of your choice
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STRATEGIES = ("single_process", "cuda_graph", "data_parallel", "sharded")
TRANSFORMER = (
    "regard.model.seq2seq",
    "regard.encoder.transformer",
    "regard.decoder.transformer",
    "regard.layers.attention.multi_head",  # recipes name these two, so no import leads there
    "regard.layers.position.sinusoidal",
)


@dataclass(frozen=True)
class Closure:
    starts: tuple[str, ...]
    limit: int
    """Lines at most."""
    without: tuple[str, ...] = ()
    """Modules that are neither counted nor followed."""
    beyond: tuple[str, ...] = ()
    """What is reached from these modules does not count."""


CLOSURES = {
    "the Transformer's forward pass": Closure(
        TRANSFORMER, 1450, without=("regard.errors", "regard.registry", "regard.layers.cross_entropy")
    ),
    "with beam search": Closure((*TRANSFORMER, "regard.decoding.beam"), 2500),
    "from regard.load to the model": Closure(("regard", "regard.loading", "regard.stem.tokens", *TRANSFORMER), 5050),
    "a training step beyond the model": Closure(
        # The loop holds one of four strategies, which are imported when one is chosen.
        ("regard.training.loop", *(f"regard.training.{strategy}" for strategy in STRATEGIES)),
        2200,
        # Recipe keys and the choice of a device come before the first step.
        without=("regard.config", "regard.setting", "regard.part_settings", "regard.toml_text", "regard.device"),
        beyond=TRANSFORMER,
    ),
}


def source(module: str) -> Path | None:
    """The file of a module of ours; None if there is none."""
    path = ROOT.joinpath(*module.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def imports(body: Iterable[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """The import statements that run when a module is imported."""
    for statement in body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            yield statement
        elif isinstance(statement, ast.If) and "TYPE_CHECKING" not in ast.unparse(statement.test):
            yield from imports([*statement.body, *statement.orelse])
        elif isinstance(statement, ast.Try):
            yield from imports(statement.body)


def imported(file: Path, everywhere: bool = False) -> Iterator[str]:
    """The modules of ours that a file imports."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    found = (node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom)))
    for statement in found if everywhere else imports(tree.body):
        if isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        else:
            if statement.level:  # from ..layers import x
                place = file.relative_to(ROOT).with_suffix("").parts[: -statement.level]
                base = ".".join([*place, *([statement.module] if statement.module else [])])
            else:
                base = statement.module or ""
            inside = [f"{base}.{alias.name}" for alias in statement.names]
            names = [name if source(name) else base for name in inside]
        yield from (name for name in names if name.split(".")[0] == "regard")


def reached(starts: Iterable[str], without: Sequence[str] = (), everywhere: bool = False) -> dict[str, Path]:
    """The modules reached from these, with their files."""
    found: dict[str, Path] = {}
    waiting = list(starts)
    while waiting:
        module = waiting.pop()
        if module in found or module in without:
            continue
        file = source(module)
        if file is None:
            raise SystemExit(f"there is no module {module}")
        found[module] = file
        waiting.extend(imported(file, everywhere))
    return found


def counted(closure: Closure, everywhere: bool = False) -> dict[str, int]:
    """The lines of every module of a closure."""
    gone = [module for module in (*closure.without, *closure.beyond) if source(module) is None]
    if gone:
        raise SystemExit(f"there is no module {', '.join(gone)}")
    apart = reached(closure.beyond, everywhere=everywhere)
    found = reached(closure.starts, closure.without, everywhere)
    return {
        module: len(file.read_text(encoding="utf-8").splitlines())
        for module, file in sorted(found.items())
        if module not in apart
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", help="count the closure of these instead")
    parser.add_argument("--files", action="store_true", help="list the files")
    parser.add_argument("--everywhere", action="store_true", help="follow imports inside functions, too")
    options = parser.parse_args(arguments)
    chosen = {" ".join(options.modules): Closure(tuple(options.modules), 0)} if options.modules else CLOSURES
    for name, closure in chosen.items():
        lines = counted(closure, options.everywhere)
        limit = f" (at most {closure.limit:,})" if closure.limit else ""
        print(f"{name}: {len(lines)} files, {sum(lines.values()):,} lines{limit}")
        if options.files:
            for module, count in lines.items():
                print(f"{count:8,}  {module}")


if __name__ == "__main__":
    main()
