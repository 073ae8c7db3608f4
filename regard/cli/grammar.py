"""The grammar that all commands share, in one place: arguments are rewritten before they are parsed.

- The model is the first argument, or `-m MODEL`.
- `--json` is `--format json`.
- Older spellings are still understood, and one line on stderr says the new one.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import cache
from typing import Annotated, Any, NamedTuple

import typer
import typer.main
from typer.core import TyperCommand

from regard.cli.terminal import say
from regard.errors import UserError

LANGUAGE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*")
"""A language code as BCP 47 writes it: fr, zh-Hans, pt_BR."""


def _always(value: str) -> bool:
    return True


def _names_a_model(value: str) -> bool:
    from regard.pretrained import shipped_models

    return value in shipped_models() or not LANGUAGE.fullmatch(value)


class Renamed(NamedTuple):
    """What an option is called now. Where its old name means something else today, `meant` tells by the value."""

    new: str
    meant: Callable[[str], bool] = _always


OUTPUT = Renamed("--output")
OLD: dict[str, dict[str, Renamed]] = {
    "train": {"--out": OUTPUT, "--from": Renamed("--start", _names_a_model)},
    "export": {"--out": OUTPUT, "--to": Renamed("--format", lambda value: value in ("regard", "ctranslate2"))},
    "inspect": {"--out": OUTPUT},
    "forecast": {"--out": OUTPUT},
    "lab": {"--out": OUTPUT, "--from": Renamed("--numbers")},
    "data": {"--into": Renamed("--data"), "--from": Renamed("--mirror")},
    "bench": {"--json": Renamed("--output", lambda value: value.endswith(".json"))},
    "vectors train": {"--out": OUTPUT},
}
"""Old spellings by command."""


def _shared(
    model: Annotated[str | None, typer.Option("--model", "-m", metavar="MODEL")] = None,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """The options that `Command` adds to commands."""


@cache
def _shared_options() -> dict[str, Any]:
    app = typer.Typer(add_completion=False)
    app.command()(_shared)
    found = {option.name: option for option in typer.main.get_command(app).params}
    for option in found.values():
        option.expose_value = False
    return found


class Command(TyperCommand):
    """A command of ours: the shared options, the old spellings, and no number that is not one."""

    def __init__(self, name: str | None, **settings: Any) -> None:
        super().__init__(name, **settings)
        arguments = {p.name: p for p in self.params if p.param_type_name == "argument"}
        self._takes_model = "model" in arguments
        self._takes_one = self._takes_model and arguments["model"].nargs == 1
        names = [option.name for option in self.params]
        if "format" in names:
            self.params.insert(names.index("format") + 1, _shared_options()["json"])
        if self._takes_model:
            option = copy(_shared_options()["model"])
            option.rich_help_panel = getattr(arguments["model"], "rich_help_panel", None)
            option.help = "The same as the first argument." if self._takes_one else "The same; may be repeated."
            self.params.insert(len(arguments), option)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            path = ctx.command_path.split(" ", 1)[-1]
            args = self._rewritten(args, OLD.get(path, {}))
        rest = super().parse_args(ctx, args)
        params: list[Any] = list(self.params)
        for option in params:
            value = ctx.params.get(option.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise typer.BadParameter(f"{value} is not a finite number", ctx=ctx, param=option)
        return rest

    def _rewritten(self, args: Sequence[str], old: dict[str, Renamed]) -> list[str]:
        models: list[str] = []
        found: list[str] = []
        for name, value in self._split(args, old):
            if name in old and value is not None and old[name].meant(value):
                _tell(f"{name} is now {old[name].new}")
                found += [old[name].new, value]
            elif self._takes_model and name in ("-m", "--model") and value is not None:
                models.append(value)
            elif name == "--json":
                found += ["--format", "json"]
            else:
                found += [word for word in (name, value) if word is not None]
        if self._takes_one and len(models) > 1:
            raise UserError(f"--model: one model at a time, not {' and '.join(models)}")
        return [*models, *found]

    def _split(self, args: Sequence[str], old: dict[str, Renamed]) -> Iterator[tuple[str | None, str | None]]:
        """Pairs of an option and its value; an option without one, or an argument, has None for the other."""
        options = [option for option in self.params if option.param_type_name == "option"]
        valued = {name for option in options if not getattr(option, "is_flag", False) for name in option.opts}
        words = list(args)
        while words:
            word = words.pop(0)
            if word == "--":
                yield word, None
                yield from ((None, rest) for rest in words)
                return
            if word.startswith("--"):
                name, equals, value = word.partition("=")
                if equals:
                    yield (name, value) if name in valued or name in old else (word, None)
                elif words and (name in valued or (name in old and old[name].meant(words[0]))):
                    yield name, words.pop(0)
                else:
                    yield name, None
            elif word.startswith("-") and word != "-":  # -qm MODEL, -mMODEL
                letters = word[1:]
                while letters:
                    name, letters = f"-{letters[0]}", letters[1:]
                    if name in valued and (letters or words):
                        yield name, letters or words.pop(0)
                        break
                    yield name, None
            else:
                yield None, word


def _tell(message: str) -> None:
    if os.environ.get("RANK", "0") == "0":  # of torchrun's processes only the first speaks
        say(message)


def in_one_line(error: Any) -> str:
    """What the parser has to say against the arguments, and whose help says more."""
    message = " ".join(error.format_message().split()).rstrip(".")
    message = message.replace("Value error, ", "")
    message = re.sub(r"^Invalid value for '([^']*)': ", r"\1: ", message)
    path = error.ctx.command_path if error.ctx else "regard"
    return f"{message}{_range_of(getattr(error, 'param', None))}; see: {path} --help"


def _range_of(option: Any) -> str:
    low, high = (getattr(option, end, getattr(getattr(option, "type", None), end, None)) for end in ("min", "max"))
    return f" (from {low:,} to {high:,})" if low is not None and high is not None else ""
