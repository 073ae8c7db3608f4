"""A name in a recipe -> a file in a family folder -> the factory in it.

The kinds of a family are the files of its folder, so choices are known without importing anything; a name that is not
among them is refused and never joined to a path. The factory is the first name in the file's `__all__`, or has the
file's own name (a command's).
Other packages add kinds through entry points of the group `regard.FAMILY`, such as `regard.layers.attention`. They
cannot replace a built-in kind: the meaning of a saved model must not depend on what else is installed.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from regard.errors import UserError, suggestion

ROOT = Path(__file__).parent
MOST = 2**20
"""The largest number that a recipe may pass to a part: a typo must not allocate terabytes."""


@functools.cache
def _own(family: str) -> set[str]:
    return {m.name for m in pkgutil.iter_modules([str(ROOT / family)]) if not m.name.startswith("_")}


@functools.cache
def _elsewhere(family: str) -> dict[str, metadata.EntryPoint]:
    """The entry points of a family; one that takes the name of a built-in kind is ignored with a warning."""
    own, found = _own(family), {}
    for point in metadata.entry_points(group=f"regard.{family.replace('/', '.')}"):
        if point.name in own:
            package = point.dist.name if point.dist else point.value
            warnings.warn(
                f"the package {package!r} registers {family}/{point.name}, which is built in; its version is ignored",
                RuntimeWarning,
                stacklevel=2,
            )
        else:
            found[point.name] = point
    return found


def kinds(family: str) -> list[str]:
    """The kinds that a recipe may name, of a family such as `encoder` or `layers/attention`."""
    return sorted({*_own(family), *_elsewhere(family)})


def is_kind(family: str, kind: str) -> bool:
    """Whether a family has this kind; entry points, which are slow to list, are checked last."""
    return kind in _own(family) or kind in _elsewhere(family)


def factory(family: str, kind: str, where: str | None = None) -> Callable[..., Any]:
    """The class or function that a kind names; `where` is the recipe key for error messages."""
    if not is_kind(family, kind):
        raise UserError(f"{where or family}: no kind '{kind}'{suggestion(kind, kinds(family))}")
    if kind not in _own(family):
        found = _elsewhere(family)[kind].load()
        return found if callable(found) else getattr(found, found.__all__[0])
    module = importlib.import_module(f"regard.{family.replace('/', '.')}.{kind}")
    return getattr(module, getattr(module, "__all__", [kind])[0])


def module(family: str, kind: str, where: str | None = None) -> ModuleType:
    """The file of a kind. A name that is not in the listing is refused and never joined to a path."""
    found = inspect.getmodule(factory(family, kind, where))
    assert found is not None
    return found


def keywords(maker: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The parameters of a factory by name: the signature is the schema."""
    return dict(inspect.signature(maker).parameters)


def check_types(given: Mapping[str, Any], known: Mapping[str, inspect.Parameter], where: str) -> None:
    """Refuses a value whose type is not that of the keyword's default, and implausibly large numbers."""
    for name, value in given.items():
        default = known[name].default if name in known else None
        if isinstance(default, bool) or (isinstance(value, bool) and isinstance(default, int | float | str)):
            fits, expected = isinstance(default, bool) and isinstance(value, bool), "true or false"
        elif isinstance(default, int):
            fits = isinstance(value, int) and min(default, 1) <= value <= MOST
            expected = f"a whole number from {min(default, 1)} to {MOST:,}"
        elif isinstance(default, float):
            fits = isinstance(value, int | float) and 0 <= value < 1e6
            expected = "a number of at least 0 and below 1,000,000"
        elif isinstance(default, str):
            fits, expected = isinstance(value, str | dict), "text"
        elif isinstance(default, tuple | list):
            fits, expected = isinstance(value, tuple | list), "a list"
        else:
            continue
        if not fits:
            raise UserError(f"{where}.{name}: wants {expected}, given {shown(value)}")


def create(family: str, kind: str, where: str | None = None, **given: Any) -> Any:
    """Calls the factory; an unknown keyword is refused with the nearest known one."""
    maker = factory(family, kind, where)
    _refuse_unknown(maker, given, keywords(maker), where or family)
    return maker(**given)


def build(family: str, spec: str | dict[str, Any], where: str | None = None, **offered: Any) -> Any:
    """Builds a recipe's `"learned"` or `{kind = "learned", length = 64}`, with the `offered` keywords it takes."""
    where = where or family
    given = {"kind": spec} if isinstance(spec, str) else dict(spec)
    kind = given.pop("kind", "")
    if not isinstance(kind, str):
        raise UserError(f"{where}.kind: wants a name, was given {shown(kind)}")
    maker = factory(family, kind, where)
    known = keywords(maker)
    _refuse_unknown(maker, given, known.keys() - offered.keys(), where)
    check_types(given, known, where)
    return maker(**{name: value for name, value in offered.items() if name in known}, **given)


def _refuse_unknown(maker: Callable[..., Any], given: Iterable[str], known: Collection[str], where: str) -> None:
    for name in given:
        if name not in known:
            title = getattr(maker, "__name__", "it")
            raise UserError(f"{where}: {title} takes no '{name}'{suggestion(name, known)}")


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
