"""Load generator: many HTTP clients as raw sockets in one event loop, each sending its next request after an answer.

Runs as its own process: reads its arguments as JSON from stdin and prints the results as JSON. Imports nothing of ours,
to cost the measured machine as little as possible, and reports its own CPU time.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections.abc import Iterator
from typing import Any


async def _client(port: int, turns: Iterator[tuple[int, bytes]], seen: list[tuple[int, float, str]]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for number, request in turns:
        begin = time.perf_counter()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        status, *fields = head.decode("latin-1").split("\r\n")
        length = next(int(field[15:]) for field in fields if field.lower().startswith("content-length:"))
        body = await reader.readexactly(length)
        took = time.perf_counter() - begin
        if " 200 " not in f"{status} ":
            raise RuntimeError(f"the server answered {status}: {body[:200]!r}")
        seen.append((number, took, json.loads(body)["translatedText"]))
    writer.close()


def _request(port: int, text: str) -> bytes:
    body = json.dumps({"q": text, "source": "fr", "target": "en"}).encode()
    head = f"POST /translate HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def ask(port: int, clients: int, lines: list[str]) -> dict[str, Any]:
    """Sends one request per line from `clients` concurrent clients."""
    turns = iter([(number, _request(port, line)) for number, line in enumerate(lines)])
    seen: list[tuple[int, float, str]] = []
    begin, before = time.perf_counter(), time.process_time()
    await asyncio.gather(*(_client(port, turns, seen) for _ in range(clients)))
    wall, own = time.perf_counter() - begin, time.process_time() - before
    seen.sort()
    return {
        "wall": wall,
        "own": own,
        "latencies": [took for _, took, _ in seen],
        "texts": [text for _, _, text in seen],
    }


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    print(json.dumps(asyncio.run(ask(**json.load(sys.stdin)))))
