"""How each task is asked for over HTTP: one file a task, and a new file is a new route of /api.

A file has `Request` (what may be asked, every field bounded), `Answer` (what comes back) and `answer(model, request)`,
which a worker calls with what `regard.load` gave; one that can answer in parts also has `parts`, one that takes files
beside JSON also `FileRequest`. The HTTP process imports these files for their schemas, so nothing here imports torch,
or anything that does, before `answer` is called. Translating alone has no `answer`: there the engine batches the
sentences of many requests (http/routes/tasks.py).
"""

from __future__ import annotations

from types import ModuleType

from regard import registry


def task_names() -> list[str]:
    return registry.kinds("serving/workers/tasks")


def module_of(task: str) -> ModuleType:
    return registry.module("serving/workers/tasks", task, "task")
