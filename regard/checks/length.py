"""A translation is far shorter or longer than texts of its length usually become, or empty."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from regard.checks._pair import Pair

CHARACTERS = {"en": 1.0, "fr": 1.15, "de": 1.15, "es": 1.08, "fa": 0.95}
"""Characters of a text in a language where the English one has 1: medians of NTREX-128, newstest2009 and Tatoeba."""
UNUSUAL, UNUSUAL_ELSEWHERE = 4.0, 7.0
"""Standard deviations, as counted below. The second is for languages that are not in the table."""
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3]")


def check(pair: Pair) -> Iterator[str]:
    source, target = len(pair.source.strip()), len(pair.target.strip())
    if not target and any(map(str.isalnum, pair.source)):
        yield "the translation is empty"
    if not target or _UNSPACED.search(pair.source) or _UNSPACED.search(pair.target):
        return  # in these scripts a character says as much as several of the others
    known = pair.source_language in CHARACTERS and pair.target_language in CHARACTERS
    ratio = CHARACTERS[pair.target_language] / CHARACTERS[pair.source_language] if known else 1.0
    # Gale and Church 1993: the difference grows with the root of the length.
    deviations = (target - ratio * source) / math.sqrt(target + ratio * source)
    if abs(deviations) > (UNUSUAL if known else UNUSUAL_ELSEWHERE):
        much = "longer" if deviations > 0 else "shorter"
        yield f"the translation is far {much} than usual: {target} characters for {source}"
