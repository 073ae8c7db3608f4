"""The type checker of the tests: beartype, told that an int may stand for a float, as everywhere in Python."""

from collections.abc import Callable
from typing import Any

from beartype import BeartypeConf, beartype
from beartype.roar import BeartypeDecorHintPep3119Exception

check = beartype(conf=BeartypeConf(is_pep484_tower=True))


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    try:
        return check(function)
    except BeartypeDecorHintPep3119Exception:  # a Protocol that is not runtime_checkable: nothing can look it up
        return function
