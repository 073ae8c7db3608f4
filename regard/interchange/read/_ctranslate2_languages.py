"""Language tags in a vocabulary: CTranslate2 folders do not say what tags mean, but families spell them differently."""

from __future__ import annotations

import re
from collections.abc import Sequence

from regard.config import Languages
from regard.interchange.families._tokens import by_language

_FORMS = (
    (re.compile(r"([a-z]{3}_[A-Z][a-z]{3})"), "before", "output"),  # NLLB: deu_Latn
    (re.compile(r"([a-z]{2,3}_[A-Z]{2})"), "before", "output"),  # mBART-50: de_DE
    (re.compile(r"__([a-z]{2,3})__"), "before", "output"),  # M2M-100
    (re.compile(r">>([A-Za-z]{2,3}(?:_[A-Za-z]{2,8})?)<<"), "none", "source"),  # OPUS-MT
    (re.compile(r"<2([a-z]{2,3}(?:_[A-Za-z]{2,8})?)>"), "none", "source"),  # MADLAD
)
"""The form of a tag, where a source has the tag of its own language, and where that of the target stands."""


def languages_of(tokens: Sequence[str]) -> tuple[Languages, set[str]]:
    """The languages whose tags a vocabulary has, and all its tags; no languages if it has fewer than two."""
    for form, of_source, of_target in _FORMS:
        pairs = [(found[1], token) for token in tokens if (found := form.fullmatch(token))]
        tags = by_language(pairs)
        if len(tags) > 1:
            source = list(tags) if of_source != "none" else []  # else it has no tag, and is not known
            spoken = Languages(source, list(tags), source_tag=of_source, target_tag=of_target, tags=tags)
            return spoken, {token for _, token in pairs}
    return Languages(), set()
