"""32 concurrent clients, one sentence per request: our server against a plain FastAPI handler around CTranslate2.

Both have the shipped model's weights, int8, a beam of 4 and batch what arrives within the same few milliseconds. What
serving costs is seen beside the same sentences translated offline, all at once by one process.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

from regard.bench import _ctranslate2_server, _http_clients
from regard.bench._benchmark import Benchmark, Row, Setting
from regard.bench._process import MeasuredProcess, children, peak_mib
from regard.bench._text import made_lines, read_lines, sample
from regard.bench.translate_file import MODEL
from regard.child_process import child_environment, python_command
from regard.errors import UserError
from regard.interchange.write.ctranslate2 import export

__all__ = ["Serve"]

CLIENTS, REQUESTS, SAMPLE = 32, 960, 320
GOAL, WORKER_MIB = 1.0, 160e6 / 2**20
OFFLINE = "from regard.bench._process import serve; from regard.bench._ours import translating; serve(translating)"


class Serve(Benchmark):
    """Requests per second."""

    title = f"{MODEL} behind HTTP"
    peer = "CTranslate2"
    unit = "requests/s"
    needs = ("ctranslate2", "fastapi", "uvicorn")

    def rows(self, setting: Setting) -> Iterator[Row]:
        clients = 4 if setting.quick else CLIENTS
        lines = asked_lines(setting)
        name = f"{clients} clients, {len(set(lines)):,} different sentences"
        if setting.wants(name):
            yield serve_row(setting, name, clients, lines, GOAL, beside_offline=True)


def asked_lines(setting: Setting) -> list[str]:
    """One sentence for each request."""
    count = 18 if setting.quick else REQUESTS
    lines = read_lines(setting.source) if setting.source else made_lines(count)
    return [lines[i % len(lines)] for i in range(count)]


def serve_row(
    setting: Setting, name: str, clients: int, lines: list[str], goal: float, beside_offline: bool = False
) -> Row:
    """Both servers, started and warmed up, in turns; `beside_offline` also translates them without a server."""
    rounds = 1 if setting.quick else 3
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        setting.note(f"{name}: starting and warming up ...")
        folder = export(MODEL, Path(place, "model"), "int8")
        servers = stack.enter_context(_ours()), stack.enter_context(_theirs(folder))
        pieces = _pieces(folder)
        for server in servers:
            load(server.port, clients, lines[: 4 * clients], pieces)
        some = list(sample(lines, SAMPLE))
        alone = stack.enter_context(MeasuredProcess(OFFLINE, model=MODEL, lines=some)) if beside_offline else None
        loads: tuple[list[Load], list[Load]] = [], []
        for number in range(1, rounds + 1):
            for server, side, found in zip(servers, ("ours", "CTranslate2"), loads):
                setting.note(f"{name}: {side}, round {number} of {rounds} ...")
                found.append(load(server.port, clients, lines, pieces))
            if alone:
                setting.note(f"offline, round {number} of {rounds} ...")
                alone.round()
        peaks = [server.peaks() for server in servers]
    ours, theirs = loads
    a, b = (statistics.median(one.rate for one in side) for side in loads)
    each = statistics.fmean(one.tokens for one in ours) / len(lines)
    worker, them = (max(found, default=None) for found in peaks)
    notes = {
        "workers": str(len(peaks[0])),
        "p50 ms": _both(ours, theirs, lambda one: one.percentile(50)),
        "p99 ms": _both(ours, theirs, lambda one: one.percentile(99)),
        "tokens/s": f"{a * each:.0f}",
        "clients' CPU": f"{statistics.fmean(one.own / one.wall for one in ours):.0%} of a core",
    }
    if alone:
        rate = len(some) / alone.median()
        notes |= {"offline tokens/s": f"{rate * each:.0f}", "of offline": f"{a / rate:.2f}"}
    met = a / b >= goal and (worker or 0.0) <= WORKER_MIB
    return Row(name, a, b, a / b, worker, them, notes, f">= {goal}, worker <= {WORKER_MIB:.0f} MiB", met)


@dataclass
class Server:
    """A running server."""

    port: int
    pid: int

    def peaks(self) -> list[float]:
        """The peak memory of each of its workers, in MiB; of itself if it has none."""
        found = map(peak_mib, children(self.pid) or [self.pid])
        return [mib for mib in found if mib is not None]


@dataclass
class Load:
    """The measurements of all clients."""

    wall: float
    own: float
    """CPU seconds of the clients themselves."""
    latencies: list[float]
    """Sorted."""
    tokens: int
    """Of all translations."""

    @property
    def rate(self) -> float:
        return len(self.latencies) / self.wall

    def percentile(self, percent: float) -> float:
        """In milliseconds."""
        return 1000 * self.latencies[min(len(self.latencies) - 1, int(len(self.latencies) * percent / 100))]


def load(port: int, clients: int, lines: list[str], pieces: Any) -> Load:
    """Sends each line once."""
    arguments = json.dumps({"port": port, "clients": clients, "lines": lines}).encode()
    command, environment = python_command("-m", _http_clients.__name__), child_environment()
    done = subprocess.run(command, env=environment, input=arguments, stdout=subprocess.PIPE, check=True)
    seen = json.loads(done.stdout)
    tokens = sum(len(found) + 1 for found in pieces.encode(seen["texts"]))  # and the end of each
    return Load(seen["wall"], seen["own"], sorted(seen["latencies"]), tokens)


@contextmanager
def _ours() -> Iterator[Server]:
    options = ["--model", MODEL, "--device", "cpu", "--port", "0", "--quiet"]
    with _started(python_command("-m", "regard", "serve", *options), stderr=subprocess.PIPE) as process:
        assert process.stderr
        said = []
        for line in process.stderr:
            said.append(line.strip())
            if found := re.search(r"ready on http://127\.0\.0\.1:(\d+)", line):
                Thread(target=process.stderr.read, daemon=True).start()  # its log must not fill the pipe
                yield Server(int(found[1]), process.pid)
                return
        raise UserError(f"our server did not start: {' '.join(said[-3:])}")


@contextmanager
def _theirs(folder: Path) -> Iterator[Server]:
    with _started(python_command("-m", _ctranslate2_server.__name__, str(folder)), stdout=subprocess.PIPE) as process:
        assert process.stdout
        yield Server(int(process.stdout.readline()), process.pid)


@contextmanager
def _started(command: list[str], **pipes: Any) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, env=child_environment(), text=True, start_new_session=True, **pipes)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def _pieces(folder: Path) -> Any:
    import sentencepiece

    return sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))


def _both(ours: list[Load], theirs: list[Load], what: Callable[[Load], float]) -> str:
    """Median of the rounds, ours and theirs."""
    return " / ".join(f"{statistics.median(map(what, side)):.0f}" for side in (ours, theirs))
