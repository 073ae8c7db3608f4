"""`regard translate DOCUMENT --output FILE`: a document instead of text."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.bulk import warn_nothing
from regard.cli.progress import parts_bar
from regard.cli.terminal import say
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.cli.language_choice import LanguageChoice


def is_document(texts: Sequence[str] | None, input: str | None, output: Path | None) -> bool:
    """Whether the one argument is the name of a document: there is a file to write, and no corpus."""
    if output is None or input is not None or texts is None or len(texts) != 1:
        return False
    from regard.documents.formats import FORMATS, suffix_of

    return suffix_of(texts[0]) in FORMATS or os.path.isfile(texts[0])


def columns_of(option: str | None) -> list[str]:
    return [name for name in map(str.strip, (option or "").split(",")) if name]


def translate_file(
    input: str,
    output: Path,
    columns: str | None,
    load: Callable[[], LanguageChoice],
    search: dict[str, Any],
    quiet: bool,
) -> None:
    """The document is read and checked before the models are loaded."""
    from regard.documents.translation import (
        aligns,
        in_another_language,
        open_document,
        translate_texts,
        translate_with,
    )

    given = open_document(input, output, columns_of(columns))
    choice = load()
    beginning = given.beginning()
    if not beginning.strip():
        raise UserError(f"{input} has no text to translate")
    options = {name: value for name, value in search.items() if value is not None and name != "n_best"}
    directed = options | choice.direction_of_document(beginning, input)
    directed["warn"] = warn_nothing if quiet else _about(input)
    translator = choice.translator
    with parts_bar(enabled=not quiet) as show:
        found = translate_texts(
            given.document,
            translate_with(translator, directed),
            aligns(translator),
            lambda done, total: show(done, total, "translating"),
            (lambda sentence: False) if choice.source else in_another_language(choice.recipe, directed.get("source")),
        )
    given.write(found)


def _about(input: str) -> Callable[[str], None]:
    """Warnings of a translator begin with the number of a text, which says nothing about a document."""
    return lambda message: say(re.sub(r"^text \d+", f"{input}: a sentence", message))
