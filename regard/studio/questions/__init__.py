"""The questions that the studio's page can ask a model: one file per question, found by its name.

A file has `Request` (the fields of the question, each bounded) and `answer(model, request)`, which a worker calls with
what `regard.load` returned. As in serving/workers/tasks, the HTTP process imports these files for their `Request`, so
torch, and whatever imports it, is imported only when `answer` is called. `Request` comes first in `__all__`.
"""

from __future__ import annotations

from types import ModuleType

from regard import registry


def question_names() -> list[str]:
    return registry.kinds("studio/questions")


def module_of(question: str) -> ModuleType:
    return registry.module("studio/questions", question, "question")
