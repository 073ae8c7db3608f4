"""One module per task: its request and answer schemas, and the function that a worker runs. A new file is a new route
of /api.

A module declares in `__all__`: `Request` (every field bounded), `Answer` and `answer(model, request)`, where `model` is
what `regard.load` returns; optionally `parts` (a streamed answer) and `FileRequest` (a file as the body). The HTTP
process imports these modules for their schemas, so torch must not be imported before `answer` is called. Only
translation has no `answer`: the pool batches the sentences of many requests (http/routes/tasks.py).
"""

from __future__ import annotations

from types import ModuleType

from regard import registry


def task_names() -> list[str]:
    return registry.kinds("serving/workers/tasks")


def module_of(task: str) -> ModuleType:
    return registry.module("serving/workers/tasks", task, "task")
