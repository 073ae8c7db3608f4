"""What the studio's page may ask of a model: one file a question, and a new file is a new question.

A file has `Request` (what may be asked, every field bounded) and `answer(model, request)`, which a worker calls with
what `regard.load` gave. As in answering/, the HTTP process imports these files for their `Request`, so nothing here
imports torch, or anything that does, before `answer` is called. `Request` stands first in `__all__`.
"""

from __future__ import annotations

import inspect
from types import ModuleType

from regard import registry


def question_names() -> list[str]:
    return registry.kinds("serving/looking")


def module_of(question: str) -> ModuleType:
    """The file of a question; a name that is not in the listing is refused and never joined to a path."""
    module = inspect.getmodule(registry.factory("serving/looking", question, "question"))
    assert module is not None
    return module
