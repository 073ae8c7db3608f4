"""Several processes that train one model: who they are, how they agree, and how they end together.

torchrun starts them and tells each its RANK, WORLD_SIZE and LOCAL_RANK. They have two ways to speak: sums over all of
them (gloo or nccl), which every rank must take part in, and a store of small texts, in which one can wait for hours.
Nothing here knows models or data; a process that was started alone is one rank of one.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from regard.device import pick_device
from regard.errors import UserError

T = TypeVar("T")

TOLD = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
FAILED = "failed"
LOOKED = 0.5  # seconds between two looks at whether a rank has failed
GRACE = 3.0  # seconds a rank has to end by itself once another has failed
JOINING = timedelta(minutes=5)
STUCK = timedelta(minutes=30)
"""How long a sum may wait for a rank. What takes longer (preparing data, validation) is waited for in the store."""


class Ranks:
    """This process and the others."""

    def __init__(self, rank: int = 0, size: int = 1, local: int = 0, store: Any = None) -> None:
        self.rank, self.size, self.local = rank, size, local
        self.is_first = rank == 0
        self._store = store
        self._told = 0
        self._lost = False
        self._left = threading.Event()

    def first(self, do: Callable[[], T]) -> T:
        """Rank 0 does it while the others wait, however long that takes. All return what it gave: plain values."""
        if self.size == 1:
            return do()
        self._told += 1
        key = f"told/{self._told}"
        if self.is_first:
            value = do()
            self._store.set(key, json.dumps(value))
            return value
        pause = 0.001
        while not self._store.check([key]):  # and not `wait`, during which no signal would be heard
            if self._lost:
                raise SystemExit(1)
            time.sleep(pause)
            pause = min(2 * pause, 0.2)
        found: T = json.loads(self._store.get(key))
        return found

    def device(self, wanted: str) -> torch.device:
        """Where this rank computes. Several on one machine have a GPU each."""
        if self.size == 1:
            return pick_device(wanted)
        device = pick_device(wanted)
        if device.type == "cpu" or (device.type == "mps" and wanted == "auto"):
            return torch.device("cpu")
        if device.type != "cuda" or device.index is not None:
            raise UserError(f"training.device: '{wanted}' is no device for several processes; use auto, cuda or cpu")
        if self.local >= torch.cuda.device_count():
            raise UserError(
                f"{socket.gethostname()} has {torch.cuda.device_count()} GPUs, but more processes were started; "
                "start one for each GPU (--nproc-per-node)"
            )
        return torch.device("cuda", self.local)

    def connect(self, device: torch.device) -> None:
        """Lets the ranks compute sums of tensors on this kind of device. All must call it."""
        if self.size == 1 or dist.is_initialized():
            return
        if device.type == "cuda":
            torch.cuda.set_device(device)
        self._told += 1
        dist.init_process_group(
            "nccl" if device.type == "cuda" else "gloo",
            store=dist.PrefixStore(f"group/{self._told}", self._store),
            rank=self.rank,
            world_size=self.size,
            timeout=STUCK,
        )

    def sum(self, tensor: Tensor) -> Tensor:
        """In place."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def copy_first(self, tensors: Iterable[Tensor], device: torch.device) -> None:
        """Gives all ranks what rank 0 has in these tensors, whatever device they are on."""
        if self.size > 1:
            for tensor in tensors:
                there = tensor.detach().to(device)
                dist.broadcast(there, 0)
                tensor.data.copy_(there)

    # ------------------------------------------------------------------------------------------- ending, well or not

    def watch(self) -> None:
        """From now on this process ends when another has failed, even where it waits for that one in a sum."""
        threading.Thread(target=self._watch, args=(_connected(),), daemon=True, name="watch").start()

    def _watch(self, store: Any) -> None:  # a connection of its own: the main thread may be waiting in the other
        while not self._left.wait(LOOKED):
            try:
                if not store.check([FAILED]):
                    continue
                rank, host, message = json.loads(store.get(FAILED))
            except RuntimeError:
                rank, host, message = -1, "", "the process that started this one is gone"
            if self._left.is_set() or rank == self.rank:
                return
            if self.local == 0 and host != socket.gethostname():  # else the rank itself was heard on this terminal
                print(f"regard: {f'rank {rank} on {host}: ' if host else ''}{message}", file=sys.stderr, flush=True)
            self._lost = True
            if not self._left.wait(GRACE):
                if sys.stderr.isatty():
                    print("\x1b[?25h", end="", file=sys.stderr, flush=True)  # the cursor, which a live display hides
                os._exit(1)

    def leave(self, well: bool) -> None:
        """`well`: waits until rank 0, who may be the one who keeps the store, is the last."""
        if well and self.size > 1:
            if dist.is_initialized():
                dist.destroy_process_group()
            self._told += 1
            gone = self._store.add(f"left/{self._told}", 1)
            while self.is_first and gone < self.size and not self._lost:
                time.sleep(0.01)
                gone = self._store.add(f"left/{self._told}", 0)
        self._left.set()


_current: Ranks | None = None


@contextlib.contextmanager
def together() -> Iterator[Ranks]:
    """All ranks that were started together. When one fails inside, all end, and only the first that failed says why."""
    global _current
    if _current is not None:
        yield _current
        return
    ranks = Ranks()
    if told := _started():
        ranks = Ranks(int(told["RANK"]), int(told["WORLD_SIZE"]), int(told["LOCAL_RANK"]), _connected())
        ranks.watch()
    _current = ranks
    try:
        yield ranks
    except BaseException as error:
        if ranks.size == 1 or isinstance(error, GeneratorExit):
            raise
        lost = _lost_connection(error)
        why = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
        if not first_to_fail(lost or why):
            raise SystemExit(1) from None
        if lost:
            raise UserError(lost) from None
        raise
    else:
        ranks.leave(well=True)
    finally:
        _current = None
        ranks.leave(well=False)


def first_to_fail(message: str) -> bool:
    """True if this rank is to say so itself: it is alone, or no other has failed before it."""
    told = _started()
    if not told:
        return True
    mine = json.dumps([int(told["RANK"]), socket.gethostname(), message[:2000]])
    try:
        found: bytes = _connected(timedelta(seconds=10)).compare_set(FAILED, "", mine)
    except RuntimeError:  # nobody is there to speak for this one
        return True
    if found.decode() != mine:
        return False
    if report := os.environ.get("TORCHELASTIC_ERROR_FILE"):  # torchrun's own report then ends with it
        with contextlib.suppress(OSError):
            Path(report).write_text(json.dumps({"message": message, "timestamp": int(time.time())}))
    return True


def _started() -> dict[str, str]:
    """What torchrun told this process; empty for one that was started alone."""
    told = {name: os.environ.get(name, "") for name in TOLD}
    return told if all(told.values()) and int(told["WORLD_SIZE"]) > 1 else {}


_keeper: Any = None


def _connected(timeout: timedelta = JOINING) -> Any:
    """A connection to the store, which torchrun keeps; started in another way, rank 0 does."""
    global _keeper
    told = _started()
    kept_elsewhere = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    keeps = told["RANK"] == "0" and not kept_elsewhere and _keeper is None
    store = dist.TCPStore(
        told["MASTER_ADDR"], int(told["MASTER_PORT"]), None, keeps, timeout, wait_for_workers=False, multi_tenant=True
    )
    if keeps:
        _keeper = store
    return dist.PrefixStore(f"regard/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)


def _lost_connection(error: BaseException) -> str:
    """What to say of an error that only means that another rank is gone; empty for any other."""
    signs = ("Connection closed by peer", "Connection reset by peer", "NCCL communicator was aborted", "Broken pipe")
    if isinstance(error, RuntimeError) and any(sign in str(error) for sign in signs):
        return "another process of this run was ended from outside; resume from the last checkpoint (--resume)"
    return ""
