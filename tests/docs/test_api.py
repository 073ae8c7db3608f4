"""docs/api.md lists the public API, and every function and class in it says what it takes and gives."""

from __future__ import annotations

import importlib
import inspect
import re
from functools import cached_property
from typing import Any

import pytest
from docs.test_snippets import ROOT

import regard
from regard import registry

PAGE = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
DIRECTIVE = re.compile(r"^\.\. auto(\w+):: (regard[\w.]*)\.(\w+)(?:\(.*\))?\n((?:   :.*\n)*)", re.M)
LISTED = [found.groups() for found in DIRECTIVE.finditer(PAGE)]


def public(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def functions() -> dict[str, Any]:
    """Every function of the page, and every method and property that it lists, by name."""
    found = {name: public(module, name) for kind, module, name, _ in LISTED if kind == "function"}
    for kind, module, name, options in LISTED:
        members = re.search(r":members: (.+)", options)
        for member in re.split(r", *", members[1]) if kind == "class" and members else ():
            value = inspect.getattr_static(public(module, name), member, None)
            if inspect.isfunction(value) or isinstance(value, (property, cached_property)):
                found[f"{name}.{member}"] = value
    return found


def parameters(function: Any) -> list[str]:
    if not inspect.isfunction(function):
        return []
    return [name for name in inspect.signature(inspect.unwrap(function)).parameters if name != "self"]


def test_all_public_names_and_all_tasks_are_on_the_page() -> None:
    listed = {(module, name) for _, module, name, _ in LISTED}
    assert {name for module, name in listed if module == "regard"} == regard._HOMES.keys()
    for task in registry.kinds("task"):
        kind = registry.factory("task", task)
        options = next(
            options for _, module, name, options in LISTED if (module, name) == (kind.__module__, kind.__name__)
        )
        shown = set(re.split(r"[:, \n]+", options))
        assert task in shown and ("inspect" in shown) == hasattr(kind, "inspect")


@pytest.mark.parametrize("name", functions())
def test_a_function_says_what_it_takes_and_gives(name: str) -> None:
    function = functions()[name]
    text = inspect.getdoc(function) or ""
    assert re.match(r"[A-Z].*[.:]$", text.partition("\n")[0]), "the first line is a sentence"
    missing = [one for one in parameters(function) if not re.search(rf"^ +{one}: [A-Z\"]|`{one}`", text, re.M)]
    assert not missing, f"{name} does not say what {missing} is"
    assert "Returns:" in text or not parameters(function)


@pytest.mark.parametrize("name", [name for kind, _, name, _ in LISTED if kind == "class"])
def test_a_class_is_described(name: str) -> None:
    kind = next(public(module, found) for _, module, found, _ in LISTED if found == name)
    assert kind.__doc__ and not kind.__doc__.startswith(f"{name}("), "no docstring of its own"


def test_there_is_much_to_check() -> None:
    assert len(functions()) > 25 and len([kind for kind, *_ in LISTED if kind == "class"]) > 20
