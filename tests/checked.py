"""The type checker of the tests: beartype for types; jaxtyping for shapes, whose letters have one size in a call.

jaxtyping's own decorator checks arguments twice and binds the signature of every call, which took half the time of many
tests. `jaxtyped` here makes the same checks once, and opens a scope for letters only where there are any.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, get_args, get_type_hints

import jaxtyping
from beartype import BeartypeConf, beartype
from beartype.roar import BeartypeDecorHintPep3119Exception
from torch.compiler import is_compiling

check = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int may stand for a float, as everywhere in Python
original = jaxtyping.jaxtyped
scope = original("context")


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which checks its arguments and its result."""
    if inspect.isgeneratorfunction(function):  # beartype would check what it yields, one by one
        return original(function, typechecker=_by_beartype)
    hints = _hints(function)
    resolved = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    resolved.__kwdefaults__, resolved.__qualname__ = function.__kwdefaults__, function.__qualname__
    resolved.__module__, resolved.__annotations__ = function.__module__, hints
    checks = _by_beartype(resolved)
    if checks is resolved:
        return function
    if not any(map(_has_shape, hints.values())):
        return functools.wraps(function)(checks)

    @functools.wraps(function)
    def scoped(*arguments: Any, **named: Any) -> Any:
        if is_compiling():  # torch.compile cannot trace the checks
            return function(*arguments, **named)
        with scope:
            return checks(*arguments, **named)

    return scoped


def jaxtyped(thing: Any = None, *, typechecker: Callable[..., Any] | None = None) -> Any:
    """In place of jaxtyping.jaxtyped, which its import hook writes above every function and class."""
    if thing is None:
        return functools.partial(jaxtyped, typechecker=typechecker)
    if inspect.isclass(thing):
        if dataclasses.is_dataclass(thing) and "__init__" in vars(thing):
            thing.__init__ = checked(thing.__init__)
        return thing
    if isinstance(thing, (classmethod, staticmethod)):
        return type(thing)(checked(thing.__func__))
    if isinstance(thing, property):
        return property(*(each and checked(each) for each in (thing.fget, thing.fset, thing.fdel)))
    return checked(thing)


def _by_beartype(function: Callable[..., Any]) -> Callable[..., Any]:
    try:
        return check(function)
    except BeartypeDecorHintPep3119Exception:  # a Protocol that is not runtime_checkable: nothing can look it up
        return function


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Annotations as types; one that only a static checker can resolve (TYPE_CHECKING) may be anything."""

    def holder() -> None: ...

    found = {}
    for name, hint in function.__annotations__.items():
        holder.__annotations__ = {name: hint}
        try:
            found.update(get_type_hints(holder, function.__globals__, include_extras=True))
        except Exception:
            found[name] = Any
    return found


def _has_shape(hint: Any) -> bool:
    return isinstance(hint, type(jaxtyping.AbstractArray)) or any(map(_has_shape, get_args(hint)))
