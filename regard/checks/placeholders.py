"""Placeholders, tags and addresses of the source text are missing in a translation, or there are others."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from regard.checks._pair import Pair, quoted

_PLACEHOLDER = re.compile(
    r"""
    %\(\w{1,60}\)[a-zA-Z]                                   # %(name)s
  | (?<![\w%])%(?:\d{1,2}\$)?[-+0\#]?\d{0,3}(?:\.\d{1,2})?(?:hh|h|ll|l|z|j|t)?[sdiufFeEgGxXocp@](?![\w'’])   # %s %1$d
  | (?<![\w%])%%(?!\w)
  | \$\{\w{1,60}\} | \{\{[^{}\n]{1,100}\}\} | \{[^{}\s]{0,60}\}     # ${name} {{ name }} {name}
  | </?[A-Za-z][^<>\n]{0,300}>                             # <b> <a href="...">
  | &(?:[A-Za-z]{2,10}|\#\d{1,6});
  | (?:https?|ftp)://[^\s<>"“”«»]+ | [\w.+-]+@[\w-]+(?:\.[\w-]+)+
    """,
    re.VERBOSE,
)
_TRAILING = ".,;:!?)…'’"
_ESCAPED = {"&nbsp;", "&amp;", "&lt;", "&gt;", "&quot;", "&apos;"}
"""Entities that stand for a character, which a translation may need more or less often."""


def check(pair: Pair) -> Iterator[str]:
    source, target = _placeholders(pair.source), _placeholders(pair.target)
    if missing := source - target:
        yield f"{_listed(missing)} of the source is missing"
    if added := target - source:
        yield f"{_listed(added)} is not in the source"


def without_placeholders(text: str) -> str:
    """The words of a text, for checks of words."""
    return _PLACEHOLDER.sub(" ", text)


def _placeholders(text: str) -> Counter[str]:
    found = Counter(one[0].rstrip(_TRAILING) if "://" in one[0] else one[0] for one in _PLACEHOLDER.finditer(text))
    for entity in _ESCAPED:
        del found[entity]
    return found


def _listed(placeholders: Counter[str]) -> str:
    return ", ".join(map(quoted, list(placeholders)[:5]))
