"""Regard: sequence models that show where they look.

    regard.load("fr-en").translate(["Je suis étudiant."])

The names below are imported when they are first used, so `import regard` costs nothing and touches nothing.
"""

import importlib

# Nothing that is not loaded yet is imported here, not even `typing`: __main__.py comes after this, and until then
# `python -m regard` would take it from the current folder.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from regard.assemble import load as load
    from regard.errors import UserError as UserError
    from regard.evaluating import evaluate as evaluate
    from regard.inspection.inspect import inspect as inspect
    from regard.interchange import export as export
    from regard.layers.capture import capture as capture
    from regard.runs import train as train

__version__ = "0.1.0"
__all__ = ["UserError", "__version__", "capture", "evaluate", "export", "inspect", "load", "train"]

_HOMES = {
    "UserError": "regard.errors",
    "capture": "regard.layers.capture",
    "evaluate": "regard.evaluating",
    "export": "regard.interchange",
    "inspect": "regard.inspection.inspect",
    "load": "regard.assemble",
    "train": "regard.runs",
}


def __getattr__(name: str) -> "Any":
    if name not in _HOMES:
        raise AttributeError(f"module 'regard' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names alone, for tab completion."""
    return sorted(__all__)
