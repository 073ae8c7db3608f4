"""A name in a recipe -> a file in a family folder -> the factory in it.

The listing of a family is the listing of its folder, so choices are known without importing anything; a name that is
not in the listing is refused and never joined to a path. The factory is the first name in the file's `__all__`, or
has the file's own name (a command's).
Other packages add kinds through entry points of the group `regard.FAMILY` (`regard.layers.attention`, for example).
They cannot replace a built-in kind: what a saved model means must not depend on what else is installed.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import warnings
from collections.abc import Callable, Collection, Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from regard.errors import UserError, suggestion

ROOT = Path(__file__).parent


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
    """The names a recipe may use in a family, such as `encoder` or `layers/attention`."""
    return sorted({*_own(family), *_elsewhere(family)})


def factory(family: str, kind: str, where: str | None = None) -> Callable[..., Any]:
    """The class or function a kind names; `where` is the recipe key to blame."""
    if kind not in kinds(family):
        raise UserError(f"{where or family}: no kind '{kind}'{suggestion(kind, kinds(family))}")
    if kind in _elsewhere(family):
        found = _elsewhere(family)[kind].load()
        return found if callable(found) else getattr(found, found.__all__[0])
    module = importlib.import_module(f"regard.{family.replace('/', '.')}.{kind}")
    return getattr(module, getattr(module, "__all__", [kind])[0])


def keywords(maker: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The parameters of a factory by name: the signature is the schema."""
    return dict(inspect.signature(maker).parameters)


def create(family: str, kind: str, where: str | None = None, **given: Any) -> Any:
    """Calls the factory, refusing keywords it does not take with the nearest one it does."""
    maker = factory(family, kind, where)
    _refuse_unknown(maker, given, keywords(maker), where or family)
    return maker(**given)


def build(family: str, spec: str | dict[str, Any], where: str | None = None, **offered: Any) -> Any:
    """Makes what a recipe spells `"learned"` or `{kind = "learned", length = 64}`; takes what is offered if it can."""
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


def check_types(values: dict[str, Any], known: dict[str, inspect.Parameter], where: str) -> None:
    """Refuses values of a wrong type (a default shows what is wanted) and numbers that nobody can mean."""
    for name, value in values.items():
        default = known[name].default
        if isinstance(default, bool) or isinstance(value, bool):
            fits = isinstance(default, bool) and isinstance(value, bool)
        elif isinstance(default, int):
            fits = isinstance(value, int) and min(default, 1) <= value <= 2**20
        elif isinstance(default, float):
            fits = isinstance(value, (int, float)) and 0 <= value < 1e6
        else:
            fits = isinstance(value, (str, dict))
        if not fits:
            wanted = {bool: "true or false", int: "a whole number above 0", float: "a number"}.get(
                type(default), "a name"
            )
            raise UserError(f"{where}.{name}: wants {wanted}, was given {shown(value)}")


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
