"""Addresses of clusters: what is wrong with one is said in one line, in bounded time."""

from __future__ import annotations

import importlib.util
import socket
import time
from pathlib import Path

import pytest

from regard.errors import UserError
from regard.ray import cluster as module
from regard.ray.cluster import Cluster, check_address, connected


@pytest.mark.parametrize("on", ["", "here", "ray://", "ray://host", "http://host:1", "host:6379", "ray://a b:1"])
def test_wrong_addresses(on: str) -> None:
    with pytest.raises(UserError, match="is no address; use auto"):
        check_address(on)


def test_ray_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None if name == "ray" else importlib.util.find_spec(name))
    with pytest.raises(UserError, match=r"ray is not installed: pip install 'regard\[ray\]'"):
        check_address("auto")


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    start = time.monotonic()
    for on, address in ((f"ray://127.0.0.1:{port}", ""), ("auto", f"127.0.0.1:{port}")):
        monkeypatch.setenv("RAY_ADDRESS", address)
        with pytest.raises(UserError, match=f"nothing answers at 127.0.0.1:{port}") as caught, connected(on, print):
            pass
        assert "\n" not in str(caught.value)
    monkeypatch.delenv("RAY_ADDRESS")
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text(f"127.0.0.1:{port}\n")  # of a cluster that is gone
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    with pytest.raises(UserError, match="nothing answers at"), connected("auto", print):
        pass
    assert time.monotonic() - start < 60


def test_what_a_worker_takes() -> None:
    def workers(device: str, engine: str, *nodes: tuple[float, float]) -> tuple[float, float, int]:
        return Cluster(False, tuple({"CPU": cpu, "GPU": gpu} for cpu, gpu in nodes), "").workers(device, engine)

    assert workers("auto", "ctranslate2", (16, 0), (8, 0)) == (4, 0, 6)
    assert workers("auto", "ctranslate2", (16, 0), (2, 0), (0, 0)) == (2, 0, 9)
    assert workers("auto", "torch", (16, 0), (2, 0)) == (1, 0, 18)
    assert workers("auto", "torch", (16, 4), (2, 0)) == (1, 1, 4)
    assert workers("cpu", "ctranslate2", (16, 4), (2, 0)) == (2, 0, 9)
    assert workers("auto", "torch", (0, 0)) == (1, 0, 0)
