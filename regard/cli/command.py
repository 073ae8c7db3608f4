"""The command class that every command uses: shared options, renamed options, error messages.

- The model is the first argument, or `-m MODEL`.
- `--json` is `--format json`.
- Old option names still work; a line on stderr gives the new name.
- A wrong value is reported in the words that recipe keys use: what was expected, what was given.
"""

from __future__ import annotations

import math
import os
import re
import typing
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import cache
from typing import Annotated, Any, NamedTuple

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from regard.cli.terminal import say
from regard.errors import UserError
from regard.setting import NAMES, Setting, shown

LANGUAGE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*")
"""A BCP 47 language code: fr, zh-Hans, pt_BR."""


def _always(value: str) -> bool:
    return True


def _names_a_model(value: str) -> bool:
    from regard.pretrained import shipped_models

    return value in shipped_models() or not LANGUAGE.fullmatch(value)


class Renamed(NamedTuple):
    """The new name of an option. `meant` decides by the value, where the old name now has another meaning."""

    new: str
    meant: Callable[[str], bool] = _always


OUTPUT = Renamed("--output")
OLD: dict[str, dict[str, Renamed]] = {
    "train": {"--out": OUTPUT, "--from": Renamed("--start", _names_a_model)},
    "export": {"--out": OUTPUT, "--to": Renamed("--format", lambda value: value in ("regard", "ctranslate2"))},
    "inspect": {"--out": OUTPUT},
    "forecast": {"--out": OUTPUT},
    "lab": {"--out": OUTPUT, "--from": Renamed("--numbers")},
    "data get": {"--into": Renamed("--data"), "--from": Renamed("--mirror")},
    "bench": {"--json": Renamed("--output", lambda value: value.endswith(".json"))},
    "vectors train": {"--out": OUTPUT},
}
"""Old option names by command."""
USUAL_VALUES = {"translate": {"--doubt": "0.5"}}
"""Options whose number may be left out, by command, and what it is then."""
_NUMBER = re.compile(r"[0-9]*\.?[0-9]+")


def _shared(
    model: Annotated[str | None, typer.Option("--model", "-m", metavar="MODEL")] = None,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Declares the options that `Command` adds."""


@cache
def _shared_options() -> dict[str, Any]:
    app = typer.Typer(add_completion=False)
    app.command()(_shared)
    found = {option.name: option for option in typer.main.get_command(app).params}
    for option in found.values():
        option.expose_value = False
    return found


class _Grammar:
    """What commands and groups of them have in common."""

    params: list[Any]
    callback: Any

    def __init__(self, name: str | None, **settings: Any) -> None:
        super().__init__(name=name, **settings)  # type: ignore[call-arg]
        arguments = {p.name: p for p in self.params if p.param_type_name == "argument"}
        self._takes_model = "model" in arguments
        self._takes_one = self._takes_model and arguments["model"].nargs == 1
        names = [option.name for option in self.params]
        if "format" in names:
            self.params.insert(names.index("format") + 1, _shared_options()["json"])
        if self._takes_model:
            option = copy(_shared_options()["model"])
            first: Any = arguments["model"]
            option.rich_help_panel = first.rich_help_panel
            option.help = "The same as the first argument." if self._takes_one else "The same; may be repeated."
            self.params.insert(len(arguments), option)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            path = ctx.command_path.split(" ", 1)[-1]
            args = self._rewritten(_with_values(args, USUAL_VALUES.get(path, {})), OLD.get(path, {}))
        given = list(args)
        try:
            rest: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        except typer.BadParameter as error:
            if error.param is not None and (kind := self._number_type(error.param.name)):
                raise self._wrong_number(ctx, error.param, kind, given) from None
            raise
        for option in self.params:
            value = ctx.params.get(option.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise self._wrong_number(ctx, option, float, given)
        return rest

    def _number_type(self, name: str | None) -> type | None:
        """int or float where the parameter is a number."""
        hint = typing.get_type_hints(self.callback).get(name or "")
        return next((kind for kind in (int, float) if kind in (hint, *typing.get_args(hint))), None)

    def _wrong_number(self, ctx: Any, option: Any, kind: type, args: Sequence[str]) -> typer.BadParameter:
        limits = Setting("", ge=option.min, le=option.max).range
        typed = [value for name, value in self._split(args, {}) if name in option.opts]
        value = str(typed[-1] if typed else option.value_from_envvar(ctx))
        variables = [option.envvar] if isinstance(option.envvar, str) else option.envvar or []
        where = "" if typed else "".join(f" by {name}" for name in variables if os.environ.get(name))
        given = value if re.fullmatch(r"-?[0-9.]{1,40}", value) else shown(value)
        wanted = f"wants {NAMES[kind]} {limits}".rstrip()
        return typer.BadParameter(f"{wanted}, given {given}{where}", ctx=ctx, param=option)

    def _rewritten(self, args: Sequence[str], old: dict[str, Renamed]) -> list[str]:
        models: list[str] = []
        found: list[str] = []
        for name, value in self._split(args, old):
            if name in old and value is not None and old[name].meant(value):
                _warn(f"{name} is now {old[name].new}")
                found += [old[name].new, value]
            elif self._takes_model and name in ("-m", "--model") and value is not None:
                models.append(value)
            elif name == "--json":
                found += ["--format", "json"]
            else:
                found += [word for word in (name, value) if word is not None]
        if "ensemble" in [option.name for option in self.params]:  # further models
            found += [word for model in models[1:] for word in ("--ensemble", model)]
            models = models[:1]
        if self._takes_one and len(models) > 1:
            raise UserError(f"--model: one model at a time, not {' and '.join(models)}")
        return [*models, *found]

    def _split(self, args: Sequence[str], old: dict[str, Renamed]) -> Iterator[tuple[str | None, str | None]]:
        """Pairs of option and value; None stands for the value of a flag and for the option of an argument."""
        options: list[Any] = [option for option in self.params if option.param_type_name == "option"]
        valued = {name for option in options if not option.is_flag for name in option.opts}
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


def _with_values(args: Sequence[str], usual: dict[str, str]) -> list[str]:
    """The arguments, where every option that no number follows has its usual one."""
    options = args[: args.index("--")] if "--" in args else args
    return [
        f"{word}={usual[word]}"
        if number < len(options) and word in usual and not _NUMBER.fullmatch("".join(args[number + 1 : number + 2]))
        else word
        for number, word in enumerate(args)
    ]


class Command(_Grammar, TyperCommand):
    """A typer command with the shared options, old option names and our error messages."""


class Group(_Grammar, TyperGroup):
    """Commands below a command, which may have options and do something by itself."""


def _warn(message: str) -> None:
    if os.environ.get("RANK", "0") == "0":  # one line, not one per torchrun process
        say(message)


def in_one_line(error: Any) -> str:
    """A parser error as one line that ends with the help to read."""
    message = " ".join(error.format_message().split()).rstrip(".")
    message = message.replace("Value error, ", "")
    message = re.sub(r"^Invalid value for '([^']*)'( / '[^']*')*: ", r"\1: ", message)
    path = error.ctx.command_path if error.ctx else "regard"
    return f"{message}; see: {path} --help"
