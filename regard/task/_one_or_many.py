"""One input or many: every task takes either, and returns one result or a list.

Methods declare this by two overloads. They overlap, because a `str` is also an iterable of `str`; the first one that
fits is meant, so mypy's complaint is silenced there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Protocol, TypeVar

from regard.data.input._accepted import Readable, is_frame, refused
from regard.errors import UserError

Result = TypeVar("Result")


class Accepts(Protocol):
    """Tells one input from many and checks it. Every kind of input does (data/input)."""

    takes: ClassVar[str]
    """What one input may be, for error messages."""

    def is_one(self, given: Any) -> bool: ...

    def accept(self, given: Any) -> Any:
        """One input as the model takes it, or a UserError."""
        ...


def one_or_many(given: Any, kind: Accepts, use: Callable[[list[Any]], list[Result]]) -> Result | list[Result]:
    """The result of `use` for one input, or the list of results for an iterable of inputs, in its order."""
    if kind.is_one(given):
        (result,) = use([kind.accept(given)])
        return result
    # Iterating over a table or dict gives its keys, over an open file its lines: never what was meant.
    if not isinstance(given, Iterable) or isinstance(given, Mapping) or is_frame(given) or isinstance(given, Readable):
        raise refused(given, f"{kind.takes}, or a list of such")
    accepted = []
    for number, one in enumerate(given, 1):
        try:
            accepted.append(kind.accept(one))
        except UserError as error:
            raise UserError(f"input {number}: {error}") from None
    return use(accepted)
