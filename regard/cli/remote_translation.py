"""`regard translate --server`: translation by a running server."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from regard.errors import UserError

if TYPE_CHECKING:
    from regard.client import ServerTranslation
    from regard.glossary import Glossary


def remote_translator(
    server: str,
    languages: tuple[str, str],
    details: bool,
    search: dict[str, Any],
    warn: Callable[[str], None],
    progress: Callable[[int], None],
) -> Callable[[list[str]], list[ServerTranslation]]:
    """A function from texts to translations by a server. LibreTranslate servers do not support `details`."""
    from regard.client import Client

    client = Client(server, os.environ.get("REGARD_API_KEY", "").strip(), note=warn)
    given = {name: value for name, value in search.items() if value is not None}
    glossary: Glossary | None = given.pop("glossary", None)

    def in_detail(texts: list[str]) -> list[ServerTranslation]:
        terms = {"glossary": glossary.occurring(texts).rows()} if glossary else {}  # no others matter
        return client.translate_in_detail(texts, *languages, progress, **(given | terms))

    if details:
        return in_detail
    return lambda texts: client.translate(texts, *languages, progress)


def languages_of(model: str, source: str | None, target: str | None) -> tuple[str, str]:
    """The languages of the options, or those in the name of a model such as fr-en."""
    if target:
        return source or "auto", target
    if source:
        raise UserError("--from needs --to, the language to translate into, such as --to en")
    if found := re.fullmatch(r"([A-Za-z]{2,3})-([A-Za-z]{2,3})", model):
        return found[1], found[2]
    raise UserError(f"a server needs languages, and the name '{model}' has none; give --from fr --to en")
