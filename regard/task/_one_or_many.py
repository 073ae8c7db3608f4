"""One input or many: every task takes either, and answers with one result or with a list of them.

Methods say so to type checkers with two overloads. These overlap, because a `str` is an iterable of `str` too; the
first overload that fits is the one that is meant, and mypy is told so where it complains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Protocol, TypeVar

from regard.data.input._accepted import Readable, is_frame, refused
from regard.errors import UserError

Result = TypeVar("Result")


class Accepts(Protocol):
    """What tells one input from many and checks it; every kind of input does (data/input)."""

    takes: ClassVar[str]
    """One input, as an error message describes it."""

    def is_one(self, given: Any) -> bool: ...

    def accept(self, given: Any) -> Any:
        """One input as the model takes it, or a UserError."""
        ...


def one_or_many(given: Any, kind: Accepts, use: Callable[[list[Any]], list[Result]]) -> Result | list[Result]:
    """The result of `use` for one input, or the list of results for an iterable of inputs, in its order."""
    if kind.is_one(given):
        (result,) = use([kind.accept(given)])
        return result
    # Iterating over a table or a dict gives the names in it, and over an open file pieces of it: never what was meant.
    if not isinstance(given, Iterable) or isinstance(given, Mapping) or is_frame(given) or isinstance(given, Readable):
        raise refused(given, f"{kind.takes}, or a list of such")
    accepted = []
    for number, one in enumerate(given, 1):
        try:
            accepted.append(kind.accept(one))
        except UserError as error:
            raise UserError(f"input {number}: {error}") from None
    return use(accepted)
