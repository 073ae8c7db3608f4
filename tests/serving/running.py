"""`regard serve` in a separate process, for tests with real HTTP, worker processes and the shipped model."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

ROOT = Path(__file__).parents[2]
PATIENCE = 120.0
"""Seconds for a server to load its models on a busy machine."""


class Running(str):
    """The address of a server, `http://127.0.0.1:PORT`, with its process and its stderr so far."""

    process: subprocess.Popen[bytes]
    said: list[str]


def environment(**more: str) -> dict[str, str]:
    """Our environment without the server's settings and proxies."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("REGARD_", "LT_"))}
    return {
        **kept,
        "PYTHONPATH": str(ROOT),
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
        **more,
    }


@contextmanager
def running_server(*options: str, env: dict[str, str] | None = None) -> Iterator[Running]:
    """Starts the server on a free port with the shipped fr-en, waits until it responds, and stops it at the end."""
    with _running([sys.executable, "-m", "regard", "serve", "--port", "0", *options], environment(**(env or {}))) as it:
        yield it


@contextmanager
def fake_server(files: int | None = None, seconds: float = 0.0, **settings: Any) -> Iterator[Running]:
    """The same with a fake pool (fake_server.py), whose translations take `seconds`, and a limit of open files."""
    script = Path(__file__).with_name("fake_server.py")
    command = [sys.executable, str(script), json.dumps({"port": 0, **settings}), *([str(files)] if files else [])]
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    with _running(command, environment(PYTHONPATH=path, FAKE_SECONDS=str(seconds))) as it:
        yield it


@contextmanager
def _running(command: list[str], env: dict[str, str]) -> Iterator[Running]:
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env, cwd=ROOT)
    said: list[str] = []
    threading.Thread(target=hear, args=(process, said), daemon=True).start()
    try:
        server = Running(_address(process, said))
        server.process, server.said = process, said
        yield server
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM; and SIGKILL if that does not end it."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def hear(process: subprocess.Popen[bytes], said: list[str]) -> None:
    """Collects what a process writes to stderr."""
    assert process.stderr
    for line in process.stderr:
        said.append(line.decode("utf-8", "replace").rstrip("\n"))


def _address(process: subprocess.Popen[bytes], said: list[str]) -> str:
    direct = build_opener(ProxyHandler({}))
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        for line in list(said):
            if found := re.search(r"ready on (http://\S+:\d+)(/\S*)?", line):
                try:
                    direct.open(f"{found[1]}{found[2] or ''}/health", timeout=5).close()
                    return found[1]
                except OSError:
                    pass  # bound, but it does not answer yet
        time.sleep(0.05)
    raise RuntimeError("the server did not start; it said:\n" + "\n".join(said))
