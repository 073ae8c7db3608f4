"""The path of a request below the server's URL prefix, and the routes that match it."""

from __future__ import annotations

from starlette.routing import Match, Route
from starlette.types import Scope


def path_of(scope: Scope) -> str:
    """The path below the URL prefix."""
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))


def is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def route_of(scope: Scope) -> str:
    """The template of the matching route, also if the request was refused before routing; empty if there is none."""
    if "route" in scope:
        return str(scope["route"].path)
    routes = _routes(scope)
    return routes[0].path if routes else ""


def methods_of(scope: Scope) -> list[str]:
    """The methods that the path allows."""
    return sorted({method for route in _routes(scope) for method in route.methods or ()})


def _routes(scope: Scope) -> list[Route]:
    known = [route for route in scope["app"].routes if isinstance(route, Route)]
    return [route for route in known if route.matches(scope)[0] is not Match.NONE]
