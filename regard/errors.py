"""The exception for user mistakes, and suggestions for misspelled names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A mistake the user can fix: one line that says what, where and what to do. The command line exits with 2."""


def suggestion(wrong: str, valid: Iterable[str]) -> str:
    """`; did you mean 'heads'?`, or the list of valid names if none is close."""
    names = sorted(valid)
    near = difflib.get_close_matches(wrong, names, n=1, cutoff=0.6)
    if near:
        return f"; did you mean '{near[0]}'?"
    return f"; there is: {', '.join(names)}" if names else ""
