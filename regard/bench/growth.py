"""The cost of a decoding step at a late position, and of unused cache capacity.

The peer is our own step at position 32, and the same step with the smallest cache that fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from regard.assemble import build_model
from regard.bench._benchmark import Benchmark, Row, Setting, Work
from regard.bench._compare import compare

__all__ = ["Growth"]

SOURCE, EARLY, LATE, ROOM = 32, 32, 512, 1024


class Growth(Benchmark):
    """Steps per second; a ratio of 0.67 means that a step takes 1.5 times as long."""

    title = "growth of a decoder's step"
    peer = "itself"
    unit = "steps/s"

    def rows(self, setting: Setting) -> Iterator[Row]:
        preset, vocabulary = ("tiny", 500) if setting.quick else ("base", 16_000)
        model = build_model({"preset": preset}, vocabulary).to(setting.device).eval()
        for sentences in (1, 32):
            at = partial(step_at, model, vocabulary, sentences, setting.device)
            for name, ours, theirs in (
                (f"at {LATE} against at {EARLY}", at(LATE, ROOM), at(EARLY, ROOM)),
                (f"at {EARLY} with room for {ROOM} against {EARLY + 1}", at(EARLY, ROOM), at(EARLY, EARLY + 1)),
            ):
                name = f"step {preset}, batch {sentences}, {name}"
                if setting.wants(name):
                    effort: dict[str, Any] = {"rounds": 2, "seconds": 0.02} if setting.quick else {"rounds": 9}
                    yield compare(setting, name, 1, ours, theirs, **effort)


def step_at(
    model: Any, vocabulary: int, sentences: int, device: torch.device, position: int, room: int
) -> partial[Work]:
    return partial(_step_at, model, vocabulary, sentences, device, position, room)


@torch.inference_mode()
def _step_at(model: Any, vocabulary: int, sentences: int, device: torch.device, position: int, room: int) -> Work:
    """Repeats one step of a decoder at `position`, with a cache of capacity `room`."""
    source = torch.randint(4, vocabulary, (sentences, SOURCE), device=device)
    memory = model.encode(source, torch.ones_like(source, dtype=torch.bool))
    written = torch.randint(4, vocabulary, (sentences, position), device=device)
    _, state = model.decoder.step(written, model.decoder.start(memory, 1, room))
    ids = written[:, :1]

    @torch.inference_mode()
    def work() -> None:
        nonlocal state
        _, after = model.decoder.step(ids, state)
        state = replace(after, position=after.position - 1)  # rewind: the cache position is written again

    return work
