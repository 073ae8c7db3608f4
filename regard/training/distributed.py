"""Processes started by torchrun: how they find each other, and how all end when one fails.

torchrun gives each process its RANK, WORLD_SIZE and LOCAL_RANK and runs the key-value store they meet in.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch.distributed as dist

from regard.errors import UserError
from regard.training.ranks import Ranks

ENVIRONMENT = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
FAILED = "failed"
POLL_SECONDS = 0.5
GRACE_SECONDS = 3.0
"""How long a rank has to end by itself once another has failed."""
JOIN_TIMEOUT = timedelta(minutes=5)

_current: Ranks | None = None


@contextlib.contextmanager
def together() -> Iterator[Ranks]:
    """All ranks that were started together. When one fails inside, all end, and only the first to fail says why."""
    global _current
    if _current is not None:
        yield _current
        return
    ranks, left = Ranks(), threading.Event()
    if variables := _torchrun():
        store = _connect()
        ranks = Ranks(int(variables["RANK"]), int(variables["WORLD_SIZE"]), int(variables["LOCAL_RANK"]), store)
        # a connection of its own: the main thread may be waiting in the other
        threading.Thread(target=_watch, args=(ranks, _connect(), left), daemon=True, name="watch").start()
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
        _wait_for_all(ranks)
    finally:
        _current = None
        left.set()


def first_to_fail(message: str) -> bool:
    """True if this rank should print the message itself: it is alone, or no other rank failed before it."""
    variables = _torchrun()
    if not variables:
        return True
    mine = json.dumps([int(variables["RANK"]), socket.gethostname(), message[:2000]])
    try:
        found: bytes = _connect(timedelta(seconds=10)).compare_set(FAILED, "", mine)
    except RuntimeError:  # the store is gone, so no other rank can speak for this one
        return True
    if found.decode() != mine:
        return False
    if report := os.environ.get("TORCHELASTIC_ERROR_FILE"):  # torchrun's own report then ends with the message
        with contextlib.suppress(OSError):
            Path(report).write_text(json.dumps({"message": message, "timestamp": int(time.time())}))
    return True


def _watch(ranks: Ranks, store: Any, left: threading.Event) -> None:
    """Ends this process when another has failed, even where it waits for that one in an all-reduce."""
    while not left.wait(POLL_SECONDS):
        try:
            if not store.check([FAILED]):
                continue
            rank, host, message = json.loads(store.get(FAILED))
        except RuntimeError:
            rank, host, message = -1, "", "the process that started this one is gone"
        if left.is_set() or rank == ranks.rank:
            return
        if ranks.local == 0 and host != socket.gethostname():  # else the rank itself wrote to this terminal
            print(f"regard: {f'rank {rank} on {host}: ' if host else ''}{message}", file=sys.stderr, flush=True)
        ranks.lost = True
        if not left.wait(GRACE_SECONDS):
            if sys.stderr.isatty():
                print("\x1b[?25h", end="", file=sys.stderr, flush=True)  # the cursor, which a live display hides
            os._exit(1)


def _wait_for_all(ranks: Ranks) -> None:
    """Rank 0, which may be running the store, waits until all others have left."""
    if ranks.size == 1:
        return
    if dist.is_initialized():
        dist.destroy_process_group()
    key = ranks.key("left")
    gone = ranks.store.add(key, 1)
    while ranks.is_first and gone < ranks.size and not ranks.lost:
        time.sleep(0.01)
        gone = ranks.store.add(key, 0)


def _torchrun() -> dict[str, str]:
    """The variables torchrun sets; empty for a process that was started alone."""
    variables = {name: os.environ.get(name, "") for name in ENVIRONMENT}
    return variables if all(variables.values()) and int(variables["WORLD_SIZE"]) > 1 else {}


_own_store: Any = None


def _connect(timeout: timedelta = JOIN_TIMEOUT) -> Any:
    """A connection to the store, which torchrun runs; under another launcher, rank 0 does."""
    global _own_store
    variables = _torchrun()
    agent_store = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    is_server = variables["RANK"] == "0" and not agent_store and _own_store is None
    store = dist.TCPStore(
        variables["MASTER_ADDR"],
        int(variables["MASTER_PORT"]),
        None,
        is_server,
        timeout,
        wait_for_workers=False,
        multi_tenant=True,
    )
    if is_server:
        _own_store = store
    return dist.PrefixStore(f"regard/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)


def _lost_connection(error: BaseException) -> str:
    """The message for an error that only means that another rank is gone; empty for any other error."""
    signs = ("Connection closed by peer", "Connection reset by peer", "NCCL communicator was aborted", "Broken pipe")
    if isinstance(error, RuntimeError) and any(sign in str(error) for sign in signs):
        return "another process of this run was ended from outside; resume from the last checkpoint (--resume)"
    return ""
