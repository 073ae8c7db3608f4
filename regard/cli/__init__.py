"""The command line: one file per command. Heavy modules are imported inside functions, so `--help` is fast.

A task's command has the task's name: a new task is a file in task/ and one of the same name here.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

from regard import __version__, registry
from regard.child_process import child_environment
from regard.cli.command import Command, in_one_line
from regard.cli.terminal import say
from regard.errors import UserError

UsageError: Any = typer.BadParameter.__base__
"""The base class of all argument errors, which typer does not export."""

COMMANDS = (
    "train", "distill", "evaluate", "score", "calibrate", "check", "chat", "inspect", "ablate", "index", "studio",
    "import", "export", "average", "detect", "lab", "bench", "reproduce", "recipes", "models", "suggestions",
    "doctor",
)  # fmt: skip
"""Besides a command per task, `serve` and the groups. Each is a function in the file of its name."""
GROUPS = ("data", "glossary", "keys", "vectors")
"""Commands that have commands of their own."""
KEYWORDS = {"import": "import_"}
"""Commands whose name no Python file or function can have."""


def build_app(only: str = "") -> typer.Typer:
    """The command line; with `only`, that command alone: importing all of them takes 0.1 s."""
    app = typer.Typer(
        name="regard",
        help="Sequence models that show where they look. Start with: regard translate 'Je suis étudiant.'",
        no_args_is_help=True,
        rich_markup_mode=None,  # rich help takes three times as long
        pretty_exceptions_enable=False,  # keep full tracebacks of bugs
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for name in [only] if _is_command(only) else _commands():
        if name in GROUPS:
            group: Any = registry.factory("cli", name)
            app.add_typer(group, name=name)
        elif name == "serve":
            from regard.cli.serve import Grouped, serve

            app.command(cls=Grouped)(serve)
        else:
            app.command(name, cls=Command)(registry.factory("cli", KEYWORDS.get(name, name)))
    return app


def _commands() -> list[str]:
    tasks = [name for name in registry.kinds("task") if registry.is_kind("cli", name)]
    return [*tasks, *COMMANDS, "serve", *GROUPS]


def _is_command(name: str) -> bool:
    """As `name in _commands()`, but without listing the tasks of other packages."""
    return name in (*COMMANDS, "serve", *GROUPS) or (registry.is_kind("cli", name) and registry.is_kind("task", name))


def __getattr__(name: str) -> Any:
    """`app`, with every command, for whoever imports it."""
    if name != "app":
        raise AttributeError(f"module 'regard.cli' has no attribute '{name}'")
    return build_app()


def _version(requested: bool) -> bool:
    if requested:
        typer.echo(f"regard {__version__}")
        raise typer.Exit
    return requested


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Runs the command line. A user's mistake gives one line on stderr and exit code 2, a bug a traceback."""
    os.environ.update(child_environment())  # for child processes of libraries, such as torch's compilers
    name = "".join(sys.argv[1:2])
    if name.endswith("-completion"):
        from regard.cli.completion import use_own_bash_script

        use_own_bash_script()
    try:
        code = build_app(name)(prog_name="regard", standalone_mode=False)
    except UsageError as error:
        if "NoArgs" in type(error).__name__:  # `regard` without arguments prints the help
            error.show()
        else:
            say(in_one_line(error))
        sys.exit(2)
    except UserError as error:
        if _is_first_to_fail(str(error)):
            say(str(error))
        sys.exit(2)
    sys.exit(code or 0)


def _is_first_to_fail(message: str) -> bool:
    """True in one of the processes that torchrun started, so that a common error is reported once."""
    if "LOCAL_RANK" not in os.environ:
        return True
    from regard.training.distributed import first_to_fail

    return first_to_fail(message)
