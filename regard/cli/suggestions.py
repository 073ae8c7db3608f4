"""`regard suggestions`: the corrections that a server was sent, as lines to read, edit and train on."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import From, JsonValue, To
from regard.cli.terminal import Format, as_json, say, shown


def suggestions(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file of: regard serve --suggestions FILE")],
    from_: From = None,
    to: To = None,
    format: JsonValue = Format.text,
) -> None:
    """List the corrections that users of a server suggested.

    Each line has a text, its suggested translation, the two languages and the time, separated by tabs: a .tsv for
    regard train --memory.
    """
    from regard.languages import internal
    from regard.suggestions import Suggestions

    store = Suggestions(file, create=False)
    found = [
        one
        for one in store.all()
        if (from_ is None or one.source == internal(from_)) and (to is None or one.target == internal(to))
    ]
    store.close()
    if format is Format.json:
        keys = ("text", "suggestion", "source", "target", "added")
        print(as_json([{**{key: getattr(one, key) for key in keys}, "added": _date(one.added)} for one in found]))
        return
    for one in found:
        cells = (" ".join(one.text.split()), " ".join(one.suggestion.split()), one.source, one.target, _date(one.added))
        print(shown("\t".join(cells)))
    if not found:
        say("no suggestions")


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
