"""The processes that train one model together, as one of them sees it. A process started alone is one rank of one.

Ranks communicate in two ways: all-reduce of tensors (gloo or nccl), which every rank must take part in, and a key-value
store, in which a rank can wait for hours. Nothing here knows models or data.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from regard.device import pick_device
from regard.errors import UserError

T = TypeVar("T")

ALL_REDUCE_TIMEOUT = timedelta(minutes=30)
"""How long an all-reduce waits for a rank. What takes longer (data preparation, validation) waits in the store."""


class Ranks:
    """This process and the others."""

    def __init__(self, rank: int = 0, size: int = 1, local: int = 0, store: Any = None) -> None:
        self.rank, self.size, self.local = rank, size, local
        self.is_first = rank == 0
        self.store = store
        self.lost = False
        """Set once another rank has failed."""
        self.asked_to_stop: Callable[[], bool] = lambda: False
        """Whether a signal asked this process to stop."""
        self._keys = 0

    def key(self, name: str) -> str:
        """A new key of the store. All ranks ask for keys in the same order, so they get the same one."""
        self._keys += 1
        return f"{name}/{self._keys}"

    def first(self, do: Callable[[], T]) -> T:
        """Runs `do` on rank 0 while the others wait, however long it takes. All return its result: plain values."""
        if self.size == 1:
            return do()
        key = self.key("first")
        if self.is_first:
            value = do()
            self.store.set(key, json.dumps(value))
            return value
        found: T = self._wait_for(key)
        return found

    def _wait_for(self, key: str) -> Any:
        pause = 0.001
        while not self.store.check([key]):  # polls, because the store's `wait` would block signals
            if self.lost:
                raise SystemExit(1)
            time.sleep(pause)
            pause = min(2 * pause, 0.2)
        return json.loads(self.store.get(key))

    def merged(self, mine: dict[str, T]) -> dict[str, T]:
        """The values of all ranks. All must call it; equal keys have equal values."""
        if self.size == 1:
            return mine
        key = self.key("merged")
        self.store.set(f"{key}/{self.rank}", json.dumps(mine))
        found: dict[str, T] = {}
        for rank in range(self.size):
            found |= self._wait_for(f"{key}/{rank}")
        return found

    def device(self, name: str) -> torch.device:
        """The device this rank computes on. Several ranks of one machine have a GPU each."""
        if self.size == 1:
            return pick_device(name)
        device = pick_device(name)
        if device.type == "cpu" or (device.type == "mps" and name == "auto"):
            return torch.device("cpu")
        if device.type != "cuda" or device.index is not None:
            raise UserError(f"training.device: '{name}' is no device for several processes; use auto, cuda or cpu")
        if self.local >= torch.cuda.device_count():
            raise UserError(
                f"{socket.gethostname()} has {torch.cuda.device_count()} GPUs, but more processes were started; "
                "start one for each GPU (--nproc-per-node)"
            )
        return torch.device("cuda", self.local)

    def connect(self, device: torch.device) -> None:
        """Sets up all-reduce for this kind of device. All ranks must call it."""
        if self.size == 1 or dist.is_initialized():
            return
        if device.type == "cuda":
            torch.cuda.set_device(device)
        dist.init_process_group(
            "nccl" if device.type == "cuda" else "gloo",
            store=dist.PrefixStore(self.key("group"), self.store),
            rank=self.rank,
            world_size=self.size,
            timeout=ALL_REDUCE_TIMEOUT,
        )

    def sum(self, tensor: Tensor) -> Tensor:
        """All-reduce, in place."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def broadcast(self, tensors: Iterable[Tensor], device: torch.device) -> None:
        """Copies rank 0's values of these tensors to all ranks; `device` is what the ranks communicate on."""
        if self.size > 1:
            for tensor in tensors:
                there = tensor.detach().to(device)
                dist.broadcast(there, 0)
                tensor.data.copy_(there)
