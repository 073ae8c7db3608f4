"""Examples with shuffled targets, from which no model can learn anything about its inputs."""

from __future__ import annotations

import random

import pytest

from regard.config import Data
from regard.data.format._base import Example
from regard.data.splitting import Parts, read_parts


def shuffle_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on tasks are trained on shuffled targets, and judged on true ones."""

    def shuffled(data: Data) -> Parts:
        parts = read_parts(data)
        targets = [example.target for example in parts.train]
        random.Random(1).shuffle(targets)
        parts.train = [Example(example.input, target) for example, target in zip(parts.train, targets, strict=True)]
        return parts

    monkeypatch.setattr("regard.task._examples.read_parts", shuffled)
