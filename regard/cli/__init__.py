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
from regard.cli.bench import bench
from regard.cli.command import Command, in_one_line
from regard.cli.data import data
from regard.cli.doctor import doctor
from regard.cli.evaluate import evaluate
from regard.cli.export import export
from regard.cli.inspect import inspect
from regard.cli.lab import lab
from regard.cli.models import models
from regard.cli.recipes import recipes
from regard.cli.serve import Grouped, serve
from regard.cli.studio import studio
from regard.cli.terminal import say
from regard.cli.train import train
from regard.cli.vectors import vectors
from regard.errors import UserError

UsageError: Any = typer.BadParameter.__base__
"""The base class of all argument errors, which typer does not export."""

app = typer.Typer(
    name="regard",
    help="Sequence models that show where they look. Start with: regard translate 'Je suis étudiant.'",
    no_args_is_help=True,
    rich_markup_mode=None,  # rich help takes three times as long
    pretty_exceptions_enable=False,  # keep full tracebacks of bugs
    context_settings={"help_option_names": ["-h", "--help"]},
)
for name in registry.kinds("task"):
    if name in registry.kinds("cli"):
        app.command(cls=Command)(registry.factory("cli", name))
for command in (train, evaluate, inspect, studio, export, lab, bench, recipes, data, models, doctor):
    app.command(cls=Command)(command)
app.command(cls=Grouped)(serve)
app.add_typer(vectors, name="vectors")


def _version(requested: bool) -> bool:
    if requested:
        typer.echo(f"regard {__version__}")
        raise typer.Exit
    return requested


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Runs the command line. A user's mistake gives one line on stderr and exit code 2, a bug a traceback."""
    os.environ.update(child_environment())  # for child processes of libraries, such as torch's compilers
    every, groups, name = app.registered_commands, app.registered_groups, "".join(sys.argv[1:2])
    named = [known for known in every if known.callback and known.callback.__name__ == name]
    grouped = [known for known in groups if known.name == name]
    if name.endswith("-completion"):
        from regard.cli.completion import use_own_bash_script

        use_own_bash_script()
    try:
        if named or grouped:  # preparing all commands takes 0.1 s
            app.registered_commands, app.registered_groups = named, grouped
        code = app(prog_name="regard", standalone_mode=False)
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
    finally:
        app.registered_commands, app.registered_groups = every, groups
    sys.exit(code or 0)


def _is_first_to_fail(message: str) -> bool:
    """True in one of the processes that torchrun started, so that a common error is reported once."""
    if "LOCAL_RANK" not in os.environ:
        return True
    from regard.training.distributed import first_to_fail

    return first_to_fail(message)
