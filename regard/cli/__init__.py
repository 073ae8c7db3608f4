"""The command line. Each command is a file here; what is heavy is imported inside functions, so help comes at once.

A task's command has the task's name: a new file in task/ and one of the same name here are all it takes.
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
"""Any mistake in the arguments; typer exports only this kind of it."""

app = typer.Typer(
    name="regard",
    help="Sequence models that show where they look. Start with: regard translate 'Je suis étudiant.'",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help is three times as fast as decorated help
    pretty_exceptions_enable=False,  # a bug keeps its whole traceback
    context_settings={"help_option_names": ["-h", "--help"]},
)
for name in registry.kinds("task"):
    if name in registry.kinds("cli"):
        app.command(cls=Command)(registry.factory("cli", name))
for command in (train, evaluate, inspect, studio, export, lab, bench, recipes, data, models, doctor):
    app.command(cls=Command)(command)
app.command(cls=Grouped)(serve)
app.add_typer(vectors, name="vectors")


def _version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"regard {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Runs the command line: a user's mistake is one line on stderr and exit code 2, a bug is a traceback."""
    os.environ.update(child_environment())  # for children that libraries start, such as torch's compilers
    every, groups, name = app.registered_commands, app.registered_groups, "".join(sys.argv[1:2])
    named = [known for known in every if known.callback and known.callback.__name__ == name]
    grouped = [known for known in groups if known.name == name]
    if name.endswith("-completion"):
        from regard.cli.completion import use_own_bash_script

        use_own_bash_script()
    try:
        if named or grouped:  # to prepare them all takes a tenth of a second
            app.registered_commands, app.registered_groups = named, grouped
        code = app(prog_name="regard", standalone_mode=False)
    except UsageError as error:
        if "NoArgs" in type(error).__name__:  # `regard` alone: its message is the help
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
    """Of the processes that torchrun starts, which may all make the same mistake, one says so."""
    if "LOCAL_RANK" not in os.environ:
        return True
    from regard.training.distributed import first_to_fail

    return first_to_fail(message)
