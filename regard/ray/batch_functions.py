"""Models as functions of batches, for `map_batches` of a Ray dataset: a model per actor, one column in, one out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from regard.engines import load_with
from regard.errors import UserError

if TYPE_CHECKING:
    import numpy as np

Batch = dict[str, "np.ndarray"]


class Task:
    """Uses a model on a column of a batch: `dataset.map_batches(regard.ray.Task, ...)`.

    An actor computes on the GPU that Ray gives it (`num_gpus=1`), otherwise with as many threads as it has CPUs.
    """

    task = ""

    def __init__(
        self,
        model: str,
        column: str = "text",
        output: str = "answer",
        result: Callable[[Any], Any] = str,
        *,
        precision: str = "auto",
        engine: str = "auto",
        **options: Any,
    ) -> None:
        """
        Args:
            model: A model as `regard.load` takes it; a folder must be visible on all nodes.
            column: The column to read.
            output: The column to write, or to replace.
            result: What to write of a result (`Translation`, `Classification`, ...): by default its text or label.
            precision: As in `regard.load`.
            engine: As in `regard.load`.
            options: Passed to the method of the model's task, such as `beam=1` to `translate`.
        """
        gpus, threads = _resources()
        device = "cuda" if gpus else "cpu" if threads else "auto"
        self._model = load_with(model, device, self.task, precision, engine, threads=threads)
        if threads and "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(threads)
        self._use = getattr(self._model, self._model.recipe.task)
        self._column, self._output, self._result, self._options = column, output, result, options

    def __call__(self, batch: Batch) -> Batch:
        import numpy as np

        if self._column not in batch:
            raise UserError(f"the batch has no column {self._column} but {', '.join(batch)}; name it with column=")
        found = self._use(list(batch[self._column]), **self._options)
        values = np.empty(len(found), dtype=object)
        values[:] = [self._result(one) for one in found]
        return {**batch, self._output: values}


class Translator(Task):
    """Translates a column of a batch: `dataset.map_batches(regard.ray.Translator, ...)`."""

    task = "translate"

    def __init__(self, model: str = "fr-en", column: str = "text", output: str = "translation", **options: Any) -> None:
        """
        Args:
            model: A translator as `regard.load` takes it; a folder must be visible on all nodes.
            column: The column to translate.
            output: The column to write, or to replace.
            options: As of `Task` and `translate`, such as `beam=1`, `source="fr"` and `target="en"`.
        """
        super().__init__(model, column, output, **{"result": _text, **options})


def _text(found: Any) -> str:
    return str(found.text)


def _resources() -> tuple[int, int]:
    """The GPUs and CPUs that Ray gave this actor; outside of one, no GPU and all CPUs, which is 0."""
    ray: Any = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return 0, 0
    context = ray.get_runtime_context()
    if context.get_actor_id() is None:  # called outside of a pipeline
        return 0, 0
    given = context.get_assigned_resources()
    return int(given.get("GPU", 0) > 0), max(1, int(given.get("CPU", 1)))
