"""A Redis server of its own for a test, on a free port of this machine, without a file."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass
class RedisServer:
    port: int
    password: str
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        return f"redis://{f':{self.password}@' if self.password else ''}127.0.0.1:{self.port}/0"

    def ask(self, *words: str) -> str:
        from redis import Redis

        client: Any = Redis(port=self.port, password=self.password or None)
        with contextlib.closing(client):
            return str(client.execute_command(*words))

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def redis_server(folder: Path, password: str = "", port: int = 0) -> Iterator[RedisServer]:
    pytest.importorskip("redis")
    if not shutil.which("redis-server"):
        pytest.skip("redis-server is not installed")
    port = port or free_port()
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", str(folder)]
    if password:
        options += ["--requirepass", password]
    process = subprocess.Popen(["redis-server", *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    server = RedisServer(port, password, process)
    try:
        end = time.monotonic() + 30
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert process.poll() is None and time.monotonic() < end, "redis-server did not start"
            time.sleep(0.02)
        yield server
    finally:
        server.stop()
