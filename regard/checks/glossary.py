"""A term is not translated as a glossary says."""

from __future__ import annotations

from collections.abc import Iterator

from regard.checks._pair import Pair
from regard.data.normalise import normalise, plain
from regard.glossary import MUST


def check(pair: Pair) -> Iterator[str]:
    """Of terms that must be translated so; those with `prefer` are a wish."""
    if pair.glossary is None:
        return
    text = plain(normalise(pair.source))
    for wanted in pair.glossary.wanted(text):
        if wanted.mode == MUST and not wanted.is_in(pair.target):
            start, end = wanted.places[0]
            forms = " or ".join(dict.fromkeys(f"'{form.text}'" for form in wanted.forms if not form.at_start))
            times = f" {wanted.times} times" if wanted.times > 1 else ""
            yield f"'{text[start:end]}' must be translated {forms}{times}"
