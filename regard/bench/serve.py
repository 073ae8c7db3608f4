"""32 concurrent clients, one sentence per request: our server against a plain FastAPI handler around CTranslate2.

Both have the shipped model's weights, int8, a beam of 4 and batch what arrives within the same few milliseconds. What
serving costs is seen beside the same sentences translated offline, sorted and 32 at a time, by one process with all
cores or by a process for each, whichever is faster.
"""

from __future__ import annotations

import json
import random
import re
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

from regard.bench import _ctranslate2 as peer
from regard.bench import _ctranslate2_server, _http_clients
from regard.bench._benchmark import Benchmark, Row, Setting
from regard.bench._process import MeasuredProcess, Work
from regard.bench.translate_file import LINES, MODEL
from regard.child_process import child_environment, python_command
from regard.errors import UserError
from regard.interchange.ctranslate2 import export

__all__ = ["Serve"]

CLIENTS, BATCH = 32, 32
OFFLINE = "from regard.bench._process import serve; from regard.bench.serve import offline; serve(offline)"


class Serve(Benchmark):
    """Requests per second."""

    title = f"{MODEL} behind HTTP"
    peer = "CTranslate2"
    unit = "requests/s"
    needs = ("ctranslate2", "fastapi", "uvicorn")

    def rows(self, setting: Setting) -> Iterator[Row]:
        clients = 4 if setting.quick else CLIENTS
        lines = _lines(setting.source) if setting.source else LINES
        name = f"{clients} clients, {len(lines):,} different sentences"
        if not setting.wants(name):
            return
        requests = 2 * len(LINES) if setting.quick else 960
        asked = [lines[i % len(lines)] for i in range(requests)]
        loads: dict[str, list[Load]] = {"ours": [], self.peer: []}
        rounds = 1 if setting.quick else 3
        with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
            setting.note(f"{name}: starting and warming up ...")
            folder = export(MODEL, Path(place, "model"), "int8")
            ports = dict(zip(loads, (stack.enter_context(_ours()), stack.enter_context(_theirs(folder)))))
            pieces = _pieces(folder)
            for port in ports.values():
                load(port, clients, asked[: 4 * clients], pieces)
            alone = stack.enter_context(Offline(random.Random(0).sample(asked, min(requests, 10 * BATCH))))
            for number in range(1, rounds + 1):
                for side, port in ports.items():
                    setting.note(f"{name}: {side}, round {number} of {rounds} ...")
                    loads[side].append(load(port, clients, asked, pieces))
                setting.note(f"offline, round {number} of {rounds} ...")
                alone.round()
        ours, theirs = loads.values()
        a, b = (statistics.median(one.rate for one in side) for side in (ours, theirs))
        each = statistics.fmean(one.tokens for one in ours) / requests
        yield Row(
            name,
            a,
            b,
            a / b,
            notes={
                "p50 ms": _both(ours, theirs, lambda one: one.percentile(50)),
                "p99 ms": _both(ours, theirs, lambda one: one.percentile(99)),
                "tokens/s": f"{a * each:.0f}",
                "offline tokens/s": f"{alone.rate() * each:.0f}",
                "of offline": f"{a / alone.rate():.2f}",
                "clients' CPU": f"{statistics.fmean(one.own / one.wall for one in ours):.0%} of a core",
            },
        )


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


class Offline:
    """The same sentences without a server: by one process with all cores, and by one process per core, in turns."""

    def __init__(self, lines: list[str]):
        self._ways: list[list[tuple[int, MeasuredProcess]]] = []
        for count in sorted({1, peer.cores()}):
            shares = [lines[i::count] for i in range(count)]
            threads = peer.cores() // count
            self._ways.append([(len(one), MeasuredProcess(OFFLINE, lines=one, threads=threads)) for one in shares])

    def __enter__(self) -> Offline:
        with ExitStack() as stack:
            for way in self._ways:
                for _, process in way:
                    stack.enter_context(process)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def round(self) -> None:
        for way in self._ways:
            with ThreadPoolExecutor(len(way)) as threads:  # the processes of one way run in parallel
                list(threads.map(lambda one: one[1].round(), way))

    def rate(self) -> float:
        """Sentences per second of the faster of the two."""
        return max(sum(count / process.median() for count, process in way) for way in self._ways)


def offline(lines: list[str], threads: int) -> Work:
    """Our side: sorted by length, 32 sentences at a time."""
    import torch

    import regard

    translator = regard.load(MODEL, device="cpu")
    torch.set_num_threads(threads)
    ordered = sorted(lines, key=len)
    batches = [ordered[i : i + BATCH] for i in range(0, len(ordered), BATCH)]
    return lambda: [translator.translate(batch, beam=4) for batch in batches]


@contextmanager
def _ours() -> Iterator[int]:
    options = ["--model", MODEL, "--device", "cpu", "--port", "0", "--quiet"]
    with _started(python_command("-m", "regard", "serve", *options), stderr=subprocess.PIPE) as process:
        assert process.stderr
        said = []
        for line in process.stderr:
            said.append(line.strip())
            if found := re.search(r"ready on http://127\.0\.0\.1:(\d+)", line):
                Thread(target=process.stderr.read, daemon=True).start()  # its log must not fill the pipe
                yield int(found[1])
                return
        raise UserError(f"our server did not start: {' '.join(said[-3:])}")


@contextmanager
def _theirs(folder: Path) -> Iterator[int]:
    with _started(python_command("-m", _ctranslate2_server.__name__, str(folder)), stdout=subprocess.PIPE) as process:
        assert process.stdout
        yield int(process.stdout.readline())


@contextmanager
def _started(command: list[str], **pipes: Any) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, env=child_environment(), text=True, start_new_session=True, **pipes)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def _lines(path: Path) -> list[str]:
    try:
        found = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read as text ({error})") from None
    if not found:
        raise UserError(f"{path}: holds no sentences")
    return found


def _pieces(folder: Path) -> Any:
    import sentencepiece

    return sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))


def _mean(values: list[float]) -> float:
    return statistics.fmean(values)


def _both(ours: list[Load], theirs: list[Load], what: Callable[[Load], float]) -> str:
    """Median of the rounds, ours and theirs."""
    return " / ".join(f"{statistics.median(map(what, side)):.0f}" for side in (ours, theirs))
