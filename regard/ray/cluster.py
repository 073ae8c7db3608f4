"""Connects to a Ray cluster, or starts Ray on this machine; everything that fails on the way is one line."""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from regard.errors import UserError

HOW = "use auto (the cluster of this machine), local (start Ray here) or ray://HOST:10001"
CONNECT_SECONDS = 10.0
"""How long a cluster may take to accept a connection."""
LOCAL_STORE = 256 << 20
"""Bytes of the object store of Ray on one machine: only a few shards are under way at a time."""
CORES = 4
"""Cores for which one model is loaded, where its engine shares it among threads."""


@dataclass(frozen=True)
class Cluster:
    remote: bool
    """Whether this process is outside of the cluster (ray://)."""
    nodes: tuple[dict[str, float], ...]
    """CPU and GPU of each living node."""
    here: str
    """The id of this machine's node; empty if it is outside."""

    def workers(self, device: str, engine: str) -> tuple[float, float, int]:
        """CPUs and GPUs of a worker, and how many the cluster has room for now."""
        if device != "cpu" and any(node["GPU"] >= 1 for node in self.nodes):
            return 1, 1, int(sum(min(node["GPU"], node["CPU"]) for node in self.nodes))
        sizes = [int(node["CPU"]) for node in self.nodes if node["CPU"] >= 1]
        cores = min(CORES, *sizes) if engine == "ctranslate2" and sizes else 1
        return cores, 0, sum(size // cores for size in sizes)


def check_address(on: str) -> None:
    """Refuses a wrong address and a Ray that is missing, without importing Ray."""
    if on not in ("auto", "local") and not re.fullmatch(r"ray://[^\s/:]+:[0-9]{1,5}", on):
        raise UserError(f"--on: '{on}' is no address; {HOW}")
    missing = [name for name in ("ray", "pyarrow") if find_spec(name) is None]
    if missing:
        raise UserError(f"--on needs Ray, but {' and '.join(missing)} is not installed: pip install 'regard[ray]'")


@contextmanager
def connected(on: str, note: Callable[[str], None]) -> Iterator[Cluster]:
    """Connects for the time of a `with` block."""
    check_address(on)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would report statistics to its makers
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # its messages are in its log files
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise UserError(f"--on needs Ray, which cannot be imported ({error}): pip install 'regard[ray]'") from None
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    if on == "local":
        note("starting Ray on this machine")
        quiet |= {"include_dashboard": False, "_node_ip_address": "127.0.0.1", "object_store_memory": LOCAL_STORE}
    elif address := _address_of_this_machine() if on == "auto" else on.removeprefix("ray://"):
        _check_listens(address, on)
    try:
        with _silent():  # it tells which level of its log it was given
            ray.init(on, **quiet)
    except (Exception, SystemExit) as error:  # Ray raises many kinds, depending on what did not answer
        raise UserError(f"--on {on}: no connection to Ray ({_line(error)}); {HOW}") from None
    with ExitStack() as stack:
        stack.callback(_disconnect)
        # Ray's own thread prints there what becomes of nodes and tasks.
        stack.enter_context(redirect_stdout(stack.enter_context(open(os.devnull, "w"))))
        client = bool(ray.util.client.ray.is_connected())
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        sizes = tuple({"CPU": float(one.get("CPU", 0)), "GPU": float(one.get("GPU", 0))} for one in nodes)
        yield Cluster(client, sizes, "" if client else ray.get_runtime_context().get_node_id())


def _disconnect() -> None:
    import ray

    with suppress(Exception):
        ray.shutdown()


@contextmanager
def _silent() -> Iterator[None]:
    """Discards what is written to stderr, also by libraries that are not Python."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _address_of_this_machine() -> str:
    """HOST:PORT of the cluster that this machine belongs to, as `ray start` noted it; empty if that is not known."""
    noted = Path(os.environ.get("RAY_TMPDIR", "/tmp"), "ray", "ray_current_cluster")
    with suppress(OSError):
        return os.environ.get("RAY_ADDRESS") or noted.read_text(encoding="utf-8").strip()
    return ""


def _check_listens(address: str, on: str) -> None:
    """Ray itself tries for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except (OSError, ValueError, OverflowError) as error:
        raise UserError(f"--on {on}: nothing answers at {address} ({_line(error)}); is the cluster up?") from None


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:160] or type(error).__name__
