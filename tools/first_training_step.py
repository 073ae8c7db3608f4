"""Measures the time and memory that `regard train` needs until its first step on a large corpus.

The corpus is synthetic: sentences of 10 to 25 words, drawn from 50,000 words a side with Zipf's frequencies. Nothing is
prepared: two text files, no tokenizer. Memory is the peak resident size, libraries included, of the process that trains
and of the one that tokenizes.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil

from regard.child_process import child_environment, python_command

WORDS = 50_000
LETTERS = np.array(list("abcdefghijklmnopqrstuvwxyzé"))


class Measured(NamedTuple):
    seconds: float
    training_gib: float
    packing_gib: float


def write_corpus(path: Path, pairs: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    often = random.dirichlet(np.full(len(LETTERS), 2.0))
    words: dict[str, None] = {}
    while len(words) < WORDS:
        length = 1 + int(min(11, random.gamma(2.0 + 2.5 * len(words) / WORDS, 1.2)))  # rare words are longer
        words["".join(random.choice(LETTERS, length, p=often))] = None
    known, chances = np.array(list(words), dtype=object), np.cumsum(1 / (np.arange(WORDS) + 2.7))
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, pairs, 100_000):
            lengths = random.integers(10, 26, min(100_000, pairs - start))
            drawn = known[np.searchsorted(chances, random.random(lengths.sum()) * chances[-1])].tolist()
            ends = lengths.cumsum().tolist()
            file.writelines(" ".join(drawn[end - n : end]) + "\n" for end, n in zip(ends, lengths.tolist()))


def measure(folder: Path, overrides: Sequence[str] = ()) -> Measured:
    """Trains three steps on `a` and `b` in a folder; the time is from the shell to the end of the first step."""
    settings = ["training.log_every=1", "model.preset=tiny", *overrides]
    files = ["--source", str(folder / "a"), "--target", str(folder / "b"), "--output", str(folder / "run")]
    command = python_command("-m", "regard", "train", *files, *settings)
    begin, first, most = time.monotonic(), 0.0, [0, 0]
    with subprocess.Popen(command, env=child_environment(), stdout=subprocess.DEVNULL) as process:
        metrics, steps = folder / "run" / "metrics.jsonl", 0
        while steps < 3 and process.poll() is None:
            time.sleep(0.05)
            most = [max(pair) for pair in zip(most, resident(process.pid))]
            steps = metrics.read_text().count("\n") if metrics.exists() else 0
            first = first or (time.monotonic() - begin if steps else 0.0)
        process.kill()
    if steps < 3:
        raise SystemExit(f"regard train ended with code {process.returncode}")
    return Measured(first, most[0] / 2**30, most[1] / 2**30)


def resident(pid: int) -> tuple[int, int]:
    """Bytes of a process, and of its children."""
    try:
        process = psutil.Process(pid)
        return process.memory_info().rss, sum(child.memory_info().rss for child in process.children())
    except psutil.Error:  # it has just ended
        return 0, 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, help="where the corpus goes, and is left for another time")
    parser.add_argument("--require", type=float, help="exit with 1 when the first step takes more seconds")
    parser.add_argument("--memory", type=float, help="exit with 1 when a process has more GiB")
    parser.add_argument("settings", nargs="*", help="as regard train takes them")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for seed, side in enumerate(("a", "b")):
            if not (folder / side).exists():
                write_corpus(folder / side, given.pairs, seed)
        shutil.rmtree(folder / "run", ignore_errors=True)
        found = measure(folder, given.settings)
    print(f"{given.pairs:,} pairs: first step after {found.seconds:.1f} s")
    print(f"resident at most: {found.training_gib:.2f} GiB training, {found.packing_gib:.2f} GiB tokenising")
    slow = given.require is not None and found.seconds > given.require
    large = given.memory is not None and max(found[1:]) > given.memory
    return int(slow or large)


if __name__ == "__main__":
    sys.exit(main())
