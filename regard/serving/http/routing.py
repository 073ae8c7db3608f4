"""Where a request goes: its path below the server's prefix, and the route that answers it."""

from __future__ import annotations

from starlette.routing import Match, Route
from starlette.types import Scope


def path_of(scope: Scope) -> str:
    """The path below the prefix that the server lives at."""
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))


def is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def route_of(scope: Scope) -> str:
    """The template of the route, also of a request that was refused before it got there; empty when there is none."""
    if "route" in scope:
        return str(scope["route"].path)
    routes = _routes(scope)
    return routes[0].path if routes else ""


def methods_of(scope: Scope) -> list[str]:
    """What the path may be asked with."""
    return sorted({method for route in _routes(scope) for method in route.methods or ()})


def _routes(scope: Scope) -> list[Route]:
    known = [route for route in scope["app"].routes if isinstance(route, Route)]
    return [route for route in known if route.matches(scope)[0] is not Match.NONE]
