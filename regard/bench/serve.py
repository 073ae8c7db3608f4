"""32 clients at once, a sentence a request: our server beside a plain FastAPI handler around CTranslate2.

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
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

from regard.bench import _clients, _plain_server
from regard.bench import _ctranslate2 as peer
from regard.bench._alone import Contestant, Work, environment
from regard.bench._benchmark import Benchmark, Row, Setting
from regard.bench.translate_file import LINES, MODEL
from regard.errors import UserError
from regard.interchange.ctranslate2 import export

__all__ = ["Serve"]

CLIENTS, BATCH = 32, 32
OFFLINE = "from regard.bench._alone import serve; from regard.bench.serve import offline; serve(offline)"


class Serve(Benchmark):
    """Requests a second."""

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
        requests = 2 * len(LINES) if setting.quick else max(1600, min(4000, len(lines)))
        rounds = 1 if setting.quick else 3
        told = {"clients": clients, "lines": lines, "requests": requests}
        with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
            folder = export(MODEL, Path(place, "model"), "int8")
            sides = {"ours": stack.enter_context(_ours()), self.peer: stack.enter_context(_theirs(folder))}
            pieces = _pieces(folder)
            loads: dict[str, list[Load]] = {side: [] for side in sides}
            for side, port in sides.items():
                setting.note(f"{name}: {side} warms up ...")
                load(port, pieces, **told | {"requests": min(requests, 10 * clients)})
            for number in range(1, rounds + 1):
                for side, port in sides.items():
                    setting.note(f"{name}: {side}, round {number} of {rounds} ...")
                    loads[side].append(load(port, pieces, **told))
        ours, theirs = loads.values()
        setting.note("the same offline ...")
        asked = [lines[i % len(lines)] for i in range(requests)]
        chosen = random.Random(0).sample(asked, min(requests, 20 * BATCH))
        alone = offline_rate(chosen, rounds) * _mean([one.tokens for one in ours]) / requests
        a, b = (statistics.median(one.rate for one in side) for side in (ours, theirs))
        tokens = statistics.median(one.tokens / one.wall for one in ours)
        yield Row(
            name,
            a,
            b,
            a / b,
            notes={
                "p50 ms": _both(ours, theirs, lambda one: one.percentile(50)),
                "p99 ms": _both(ours, theirs, lambda one: one.percentile(99)),
                "tokens/s": f"{tokens:.0f}",
                "offline tokens/s": f"{alone:.0f}",
                "of offline": f"{tokens / alone:.2f}",
                "clients' CPU": f"{_mean([one.own / one.wall for one in ours]):.0%} of a core",
            },
        )


@dataclass
class Load:
    """What a crowd of clients saw."""

    wall: float
    own: float
    """Seconds of computing that the clients themselves took."""
    latencies: list[float]
    """Sorted."""
    tokens: int
    """Of all the translations they got."""

    @property
    def rate(self) -> float:
        return len(self.latencies) / self.wall

    def percentile(self, percent: float) -> float:
        """In milliseconds."""
        return 1000 * self.latencies[min(len(self.latencies) - 1, int(len(self.latencies) * percent / 100))]


def load(port: int, pieces: Any, **told: Any) -> Load:
    command = [sys.executable, _clients.__file__]
    done = subprocess.run(
        command, input=json.dumps({"port": port, **told}).encode(), stdout=subprocess.PIPE, check=True
    )
    seen = json.loads(done.stdout)
    each = {int(number): len(pieces.encode(text)) + 1 for number, text in seen["texts"].items()}  # and the end
    tokens = sum(count * each[number] for number, count in enumerate(seen["counts"]) if count)
    return Load(seen["wall"], seen["own"], seen["latencies"], tokens)


def offline_rate(lines: list[str], rounds: int) -> float:
    """Sentences a second: the better of one process with all cores and a process for each."""
    rates = []
    for processes in sorted({1, peer.cores()}):
        with ExitStack() as stack, ThreadPoolExecutor(processes) as threads:
            shares = [lines[i::processes] for i in range(processes)]
            told = [{"lines": share, "threads": peer.cores() // processes} for share in shares]
            # They load, warm up and work side by side.
            everybody = list(threads.map(lambda one: stack.enter_context(Contestant(OFFLINE, **one)), told))
            for _ in range(rounds):
                list(threads.map(Contestant.round, everybody))
            rates.append(sum(len(share) / one.median() for share, one in zip(shares, everybody)))
    return max(rates)


def offline(lines: list[str], threads: int) -> Work:
    """The contestant: sorted by length, 32 sentences at a time."""
    import torch

    import regard

    translator = regard.load(MODEL, device="cpu")
    torch.set_num_threads(threads)
    ordered = sorted(lines, key=len)
    batches = [ordered[i : i + BATCH] for i in range(0, len(ordered), BATCH)]
    return lambda: [translator.translate(batch, beam=4) for batch in batches]


@contextmanager
def _ours() -> Iterator[int]:
    command = [sys.executable, "-m", "regard", "serve", "--model", MODEL, "--device", "cpu", "--port", "0"]
    with _started(command, stderr=subprocess.PIPE) as process:
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
    with _started([sys.executable, _plain_server.__file__, str(folder)], stdout=subprocess.PIPE) as process:
        assert process.stdout
        yield int(process.stdout.readline())


@contextmanager
def _started(command: list[str], **pipes: Any) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, env=environment(), text=True, start_new_session=True, **pipes)
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
