"""Two servers behind HAProxy with docs/deploy/haproxy.cfg: one is killed, or drained, while clients send requests (R15).

Small with servers that answer after some milliseconds, in full with the shipped model: pytest -m slow -s -n 0 FILE.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from serving.load import Client, Reply, reply, request_bytes
from serving.redis_server import free_port
from serving.running import ROOT, Running, fake_server, running_server

CONFIG = ROOT / "docs" / "deploy" / "haproxy.cfg"
CLIENTS = 16
pytestmark = pytest.mark.skipif(not shutil.which("haproxy"), reason="haproxy is not installed")


@contextmanager
def haproxy(folder: Path, servers: list[Running], check: str = "1s") -> Iterator[str]:
    """The address of HAProxy in front of these two servers: the documented settings with other addresses."""
    port = free_port()
    text = CONFIG.read_text()
    for old, new in (
        (" resolvers containers init-addr last,libc,none", ""),
        ("regard-1:5000", servers[0].removeprefix("http://")),
        ("regard-2:5000", servers[1].removeprefix("http://")),
        ("bind :8080", f"bind 127.0.0.1:{port}"),
        ("bind :8404", f"bind 127.0.0.1:{free_port()}"),
        ("inter 1s", f"inter {check}"),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    text = re.sub(r"^resolvers containers\n.*\n", "", text, flags=re.M)
    file = folder / "haproxy.cfg"
    file.write_text(text)
    process = subprocess.Popen(["haproxy", "-f", str(file)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        address = f"http://127.0.0.1:{port}"
        end = time.monotonic() + 30
        while True:
            assert process.poll() is None and time.monotonic() < end, "HAProxy did not start"
            try:
                if asyncio.run(_health(address)) == 200:
                    break
            except (OSError, asyncio.IncompleteReadError):
                pass
            time.sleep(0.05)
        yield address
    finally:
        process.kill()
        process.wait()


async def _health(address: str) -> int:
    client = Client(address)
    try:
        return (await client.send("GET", "/health")).status
    finally:
        client.close()


@dataclass
class Seen:
    seconds: list[float] = field(default_factory=list)
    """Of each request, with its repetition."""
    repeated: int = 0
    lost: list[str] = field(default_factory=list)
    """Failures of repeated requests."""

    def p(self, share: float) -> float:
        return sorted(self.seconds)[int(share * len(self.seconds))]

    def __str__(self) -> str:
        return (
            f"{len(self.seconds)} requests, {self.repeated} repeated by the client, {len(self.lost)} lost; median "
            f"{self.p(0.5):.3f} s, 99 % within {self.p(0.99):.3f} s, all within {max(self.seconds):.3f} s"
        )


def load(
    address: str, seconds: float, halfway: Callable[[], None], answer: Callable[[str, str], bool], more: str = ""
) -> Seen:
    """16 clients that send one sentence (and `more`) after the other and repeat a request once if it fails. `answer`
    tells whether a text has this translation."""
    seen = Seen()

    async def once(client: Client, text: str) -> str:
        """Empty, or why the request failed."""
        try:
            found: Reply = await asyncio.wait_for(client.translate(text), 60)
        except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
            client.close()
            return repr(error)
        if found.status != 200 or not answer(text, found.json()["translatedText"]):
            return f"{found.status} {found.body!r}"
        return ""

    async def one_client(number: int, end: float) -> None:
        client = Once(address)
        while (began := time.monotonic()) < end:
            text = f"Je suis étudiant {number} {len(seen.seconds)}.{more}"
            if await once(client, text):
                seen.repeated += 1
                if error := await once(client, text):
                    seen.lost.append(error)
            seen.seconds.append(time.monotonic() - began)
        client.close()

    async def all_of_them() -> None:
        end = time.monotonic() + seconds
        asyncio.get_running_loop().call_later(seconds / 2, halfway)
        await asyncio.gather(*(one_client(number, end) for number in range(CLIENTS)))

    asyncio.run(all_of_them())
    return seen


class Once(Client):
    """Does not repeat a request by itself: a broken connection counts as a failure."""

    async def send(self, method: str, path: str, body: bytes = b"", **headers: str) -> Reply:
        if self._open is None:
            return await super().send(method, path, body, **headers)
        reader, writer = self._open
        since = time.monotonic()
        writer.write(request_bytes(method, path, body, **headers))
        found = await reply(reader, since)
        if found.headers.get("connection") == "close":
            self.close()
        return found


def upper(text: str, found: str) -> bool:
    return found == text.upper()


def translated(text: str, found: str) -> bool:
    return "student" in found and text.split()[-1].rstrip(".") in found


def served(server: Running) -> int:
    return sum(" POST /translate 200 " in line for line in server.said)


def refused(server: Running) -> list[str]:
    return [line for line in server.said if re.search(r" POST /translate (?!200 )\d+", line)]


def killed(
    folder: Path, servers: list[Running], seconds: float, answer: Callable[[str, str], bool], more: str = ""
) -> Seen:
    with haproxy(folder, servers) as address:
        before: list[int] = []

        def kill() -> None:
            before.append(served(servers[0]))
            servers[0].process.kill()

        seen = load(address, seconds, kill, answer, more)
    assert before[0] and served(servers[1]) > before[0], "both took part"
    assert not seen.lost
    return seen


def drained(
    folder: Path, servers: list[Running], seconds: float, answer: Callable[[str, str], bool], check: str = "1s"
) -> Seen:
    with haproxy(folder, servers, check) as address:
        seen = load(address, seconds, lambda: servers[0].process.send_signal(signal.SIGTERM), answer)
    assert servers[0].process.wait(30) == 0
    assert served(servers[0]) > CLIENTS and served(servers[1]) > CLIENTS
    assert not seen.repeated and not seen.lost, "no client noticed"
    assert not refused(servers[0]), "and HAProxy did not need to repeat anything either"
    return seen


def test_one_server_is_killed_and_nobody_who_repeats_a_request_once_loses_one(tmp_path: Path) -> None:
    with fake_server(seconds=0.15) as one, fake_server(seconds=0.15) as two:
        killed(tmp_path, [one, two], 2, upper)


def test_R15_a_server_is_drained_and_nobody_notices(tmp_path: Path) -> None:
    """For half a second after it refuses requests, too."""
    with fake_server(seconds=0.15, drain=2.0) as one, fake_server(seconds=0.15) as two:
        drained(tmp_path, [one, two], 5, upper, check="200ms")


@pytest.mark.slow
def test_texts_that_are_larger_than_haproxys_usual_buffer_are_not_lost_either(tmp_path: Path) -> None:
    with fake_server(seconds=0.05) as one, fake_server(seconds=0.05) as two:
        seen = killed(tmp_path, [one, two], 10, upper, " x" * 10_000)
    assert not seen.repeated, "HAProxy sent them again"


@pytest.mark.slow
@pytest.mark.parametrize("how", ["killed", "drained"])
def test_R15_the_same_with_the_shipped_model_for_half_a_minute(how: str, tmp_path: Path) -> None:
    options = ("--workers", "1", "--device", "cpu", "--drain", "5")
    with running_server(*options) as one, running_server(*options) as two:
        seen = {"killed": killed, "drained": drained}[how](tmp_path, [one, two], 30, translated)
    print(f"\none of two servers is {how}: {seen}")
