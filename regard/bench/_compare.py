"""Times two implementations of the same work in one process, in turns."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable

import torch

from regard.bench._benchmark import Row, Setting, Work


class Side:
    """One of the two: its work, times and GPU memory."""

    def __init__(self, make: Callable[[], Work], device: torch.device, seconds: float):
        self._device = device
        before = self._allocated()  # by the other side, which must not count
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        self._work = make()
        self._run(2)  # warm-up: kernel choice, allocation, CUDA graph capture
        once = self._run(1)
        self.mib = (torch.cuda.max_memory_allocated(device) - before) / 2**20 if device.type == "cuda" else None
        # Several calls between synchronisations, since in real use the host runs ahead of the GPU.
        self._calls = max(1, math.ceil(seconds / once))
        self.times: list[float] = []

    def round(self) -> None:
        self.times.append(self._run(self._calls) / self._calls)

    def _run(self, calls: int) -> float:
        self._wait()
        start = time.perf_counter()
        for _ in range(calls):
            self._work()
        self._wait()
        return time.perf_counter() - start

    def _wait(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def _allocated(self) -> int:
        self._wait()
        return torch.cuda.memory_allocated(self._device) if self._device.type == "cuda" else 0


def compare(
    setting: Setting,
    name: str,
    amount: int,
    ours: Callable[[], Work],
    theirs: Callable[[], Work],
    rounds: int,
    seconds: float = 0.3,
) -> Row:
    """Median over `rounds` of turns of `seconds`, or one call; a call does `amount` of work."""
    setting.note(f"measuring {name} ...")
    sides = [Side(make, setting.device, seconds) for make in (ours, theirs)]
    for _ in range(rounds):
        for side in sides:
            side.round()
    a, b = (amount / statistics.median(side.times) for side in sides)
    return Row(name, a, b, a / b, sides[0].mib, sides[1].mib)
