"""`regard keys`: the API keys that servers share (`regard serve --state`)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.command import Command
from regard.cli.terminal import Format, aligned, as_json, say, shown
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.serving.state import StateStore

keys = typer.Typer(
    help="API keys that servers share: add, list and remove them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
State = Annotated[
    str,
    typer.Option(
        "--state",
        metavar="FILE|URL",
        envvar="REGARD_STATE",
        show_envvar=False,
        help="The servers' --state: a file, or redis://HOST. Also REGARD_STATE.",
    ),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Whose key it is, such as website.")]


@keys.command(cls=Command)
def add(name: Name, state: State = "") -> None:
    """Make a key and print it, once: the store has only its hash. From the first key on, requests need one."""
    from regard.serving.state import check_name, digest_of, new_key

    check_name(name)
    key = new_key()
    with _opened(state) as store:
        if not store.add_key(name, digest_of(key)):
            raise UserError(f"there is a key named '{name}'; choose another name, or first: regard keys remove {name}")
    print(key)


@keys.command("list", cls=Command)
def list_(
    state: State = "",
    format: Annotated[Format, typer.Option("--format", help="text or json.")] = Format.text,
) -> None:
    """List the names of the keys, and when they were added."""
    with _opened(state) as store:
        rows = [(key.name, _date(key.added)) for key in store.stored_keys()]
    if format is Format.json:
        print(as_json([{"name": name, "added": added} for name, added in rows]))
    elif rows:
        print(shown("\n".join(aligned(rows))))
    else:
        say("no keys")


@keys.command(cls=Command)
def remove(name: Name, state: State = "") -> None:
    """Remove a key: servers refuse it from now on. Requests need a key even after the last one was removed."""
    with _opened(state) as store:
        if not store.remove_key(name):
            raise UserError(f"there is no key named '{name}'; see: regard keys list")


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


@contextmanager
def _opened(where: str) -> Iterator[StateStore]:
    if not where:
        raise UserError("which keys? give the servers' --state, or set REGARD_STATE")
    os.environ.pop("REGARD_STATE", None)
    from regard.serving.state import StateUnavailable, open_state

    store = open_state(where)
    try:
        yield store
    except StateUnavailable as error:
        raise UserError(f"--state: {error}") from None
    finally:
        store.close()
