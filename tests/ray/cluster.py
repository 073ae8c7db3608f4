"""A Ray cluster of several nodes on this machine, on the loopback interface alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

# 127.0.0.1 itself is replaced by the machine's own address when a second process connects.
LOOPBACK = "127.0.0.2"
STORE = 100 << 20


@contextmanager
def cluster(nodes: int, monkeypatch: Any) -> Iterator[Any]:
    """`nodes` nodes of one CPU each; RAY_ADDRESS leads to them. Nothing is left running afterwards."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "0")  # other tests may fill the memory
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    from ray.cluster_utils import Cluster

    every = {"num_cpus": 1, "object_store_memory": STORE, "node_ip_address": LOOPBACK, "include_dashboard": False}
    found = Cluster(initialize_head=True, head_node_args=every)
    try:
        for _ in range(nodes - 1):
            found.add_node(**every)
        monkeypatch.setenv("RAY_ADDRESS", found.address)
        yield found
    finally:
        found.shutdown()
