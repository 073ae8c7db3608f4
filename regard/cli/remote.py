"""`regard translate --server`: which languages, and what of a running server is asked."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from regard.errors import UserError

if TYPE_CHECKING:
    from regard.client import ServerTranslation


def asking(
    server: str,
    languages: tuple[str, str],
    details: bool,
    search: dict[str, Any],
    warn: Callable[[str], None],
    progress: Callable[[int], None],
) -> Callable[[list[str]], list[ServerTranslation]]:
    """Something that turns texts into translations. A LibreTranslate server has no `details`."""
    from regard.client import Client

    client = Client(server, os.environ.get("REGARD_API_KEY", "").strip(), note=warn)
    given = {name: value for name, value in search.items() if value is not None}
    if details:
        return lambda texts: client.translate_in_detail(texts, *languages, progress, **given)
    return lambda texts: client.translate(texts, *languages, progress)


def languages_of(model: str, source: str | None, target: str | None) -> tuple[str, str]:
    """Those that were said; else those that a model such as fr-en is named after."""
    if target:
        return source or "auto", target
    if source:
        raise UserError("--from needs --to, the language to translate into, such as --to en")
    if found := re.fullmatch(r"([A-Za-z]{2,3})-([A-Za-z]{2,3})", model):
        return found[1], found[2]
    raise UserError(f"a server is asked by languages, which '{model}' does not name; give --from fr --to en")
