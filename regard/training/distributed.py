"""Processes started by torchrun: how they find each other, and how all end when one fails.

torchrun gives each process its RANK, WORLD_SIZE and LOCAL_RANK and runs the key-value store they meet in. With
--max-restarts it starts all of them again when one has failed, perhaps with another number of processes.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
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
SILENT_SECONDS = 120.0
"""A rank that writes nothing to the store for so long is lost: its machine is gone, or the process is stopped. Only
counted while models are trained, not while rank 0 prepares data. Long, since a slow rank is no lost one."""
SILENT_SECONDS_STOPPING = 10.0
"""The same once this process has been asked to stop: torchrun kills it 30 seconds after asking, and asks it because
another has died."""

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
        store = _meet(_connect(), int(variables["RANK"]), int(variables["WORLD_SIZE"]))
        ranks = Ranks(int(variables["RANK"]), int(variables["WORLD_SIZE"]), int(variables["LOCAL_RANK"]), store)
        # a connection of its own: the main thread may be waiting in the other
        threading.Thread(target=_watch, args=(ranks, _named(_connect()), left), daemon=True, name="watch").start()
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
        found: bytes = _named(_connect(timedelta(seconds=10))).compare_set(FAILED, "", mine)
    except RuntimeError:  # the store is gone, so no other rank can speak for this one
        return True
    if found.decode() != mine:
        return False
    if report := os.environ.get("TORCHELASTIC_ERROR_FILE"):  # torchrun's own report then ends with the message
        with contextlib.suppress(OSError):
            Path(report).write_text(json.dumps({"message": message, "timestamp": int(time.time())}))
    return True


def _watch(ranks: Ranks, store: Any, left: threading.Event) -> None:
    """Ends this process when another has failed, even where it waits for that one in an all-reduce.

    Each rank counts in the store as long as it lives, and watches the count of the next one.
    """
    watched, heard, silent = (ranks.rank + 1) % ranks.size, 0, 0.0
    while not left.wait(POLL_SECONDS):
        try:
            if dist.is_initialized():
                store.add(f"alive/{ranks.rank}", 1)
                count = store.add(f"alive/{watched}", 0)
                silent = silent + POLL_SECONDS if count == heard > 0 else 0.0
                heard = count
                if silent >= (SILENT_SECONDS_STOPPING if ranks.asked_to_stop() else SILENT_SECONDS):
                    gone = [watched, "", f"rank {watched} does not answer any more; {_what_now()}"]
                    store.compare_set(FAILED, "", json.dumps(gone))
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


_name = f"before/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
"""What all keys of this start begin with."""


def _named(store: Any) -> Any:
    return dist.PrefixStore(f"regard/{_name}", store)


def _meet(store: Any, rank: int, size: int) -> Any:
    """The store under a name that all ranks of this start agree on.

    The store outlives restarts, and nodes that joined at different times count those differently. So rank 0 makes up a
    name, and the others take it once rank 0 has answered each of them: the name of an earlier start gets no answer.
    """
    global _name
    before, mine, end = _named(store), secrets.token_hex(8), time.monotonic() + JOIN_TIMEOUT.total_seconds()
    root, others = dist.PrefixStore("regard", store), range(1, size)
    if rank == 0:
        root.set("start", mine)
    while True:
        name = mine if rank == 0 else root.get("start").decode() if root.check(["start"]) else ""
        start = dist.PrefixStore(name, root)
        if rank == 0:
            if start.check([f"here/{other}" for other in others]):
                start.set("answers", json.dumps([mine, *(start.get(f"here/{other}").decode() for other in others)]))
                break
        elif name:
            start.set(f"here/{rank}", mine)
            if start.check(["answers"]) and json.loads(start.get("answers"))[rank] == mine:
                break
        if before.check([FAILED]):
            raise SystemExit(1)  # the rank itself said why
        if time.monotonic() > end:
            raise UserError(f"rank {rank} has waited {JOIN_TIMEOUT} for the other {size - 1} processes; start them all")
        time.sleep(0.02)
    _name = name
    return _named(store)


def launch_id() -> str:
    """What all starts by one torchrun have in common, its restarts included; empty for a process started alone.

    It is --rdzv-id (which --standalone makes up). Without either it is the folder that torchrun makes for error files.
    """
    name = os.environ.get("TORCHELASTIC_RUN_ID", "")
    if name in ("", "none"):
        report = os.environ.get("TORCHELASTIC_ERROR_FILE", "")
        return Path(report).parents[2].name if report else ""
    return name


def restarts() -> tuple[int, int]:
    """How often torchrun starts all processes again if one fails, and how often it has."""
    most, count = (os.environ.get(f"TORCHELASTIC_{name}") or 0 for name in ("MAX_RESTARTS", "RESTART_COUNT"))
    return int(most), int(count)


def _what_now() -> str:
    most, count = restarts()
    if count < most:
        return f"torchrun starts all again, from the last checkpoint (restart {count + 1} of {most})"
    return "resume from the last checkpoint (--resume)"


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
    return store


def _lost_connection(error: BaseException) -> str:
    """The message for an error that only means that another rank is gone; empty for any other error."""
    signs = ("Connection closed by peer", "Connection reset by peer", "NCCL communicator was aborted", "Broken pipe")
    if isinstance(error, RuntimeError) and any(sign in str(error) for sign in signs):
        return f"another process of this run was ended from outside; {_what_now()}"
    return ""
