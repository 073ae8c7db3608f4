"""A search that is watched finds what it finds alone, and is not recorded, since a recording tells nothing."""

from __future__ import annotations

import torch

from regard.decoding.recording import wanted
from regard.decoding.watching import Step, watcher, watching


def test_watched_searches_are_not_recorded() -> None:
    steps: list[Step] = []
    assert wanted(torch.device("cuda")) and watcher() is None
    with watching(steps.append):
        assert not wanted(torch.device("cuda")) and watcher() is not None
    assert wanted(torch.device("cuda")) and not wanted(torch.device("cpu"))
