"""Bulk work on a Ray cluster (`--on`), and models as functions for Ray Data pipelines.

    dataset.map_batches(regard.ray.Translator, fn_constructor_kwargs={"model": "fr-en", "column": "text"}, ...)

Translator    translates a column
Task          classifies, tags, continues, ...: any model on a column

Needs the extra `regard[ray]`. Importing this does not import Ray.
"""

from regard.ray.batch_functions import Task, Translator

__all__ = ["Task", "Translator"]
