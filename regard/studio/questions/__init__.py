"""What the studio's page may ask of a model: one file a question, and a new file is a new question.

A file has `Request` (what may be asked, every field bounded) and `answer(model, request)`, which a worker calls with
what `regard.load` gave. As in serving/workers/tasks, the HTTP process imports these files for their `Request`, so
nothing here imports torch, or anything that does, before `answer` is called. `Request` stands first in `__all__`.
"""

from __future__ import annotations

from types import ModuleType

from regard import registry


def question_names() -> list[str]:
    return registry.kinds("studio/questions")


def module_of(question: str) -> ModuleType:
    return registry.module("studio/questions", question, "question")
