"""Lines shared with other processes come back in order, with their own numbers, also when a process dies."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from regard.cli import workers
from regard.cli.line_workers import LineWorkers, worker_count

UPPER = """
import sys
for number, line in enumerate(sys.stdin, 1):
    if line == "die\\n":
        sys.exit(3)
    if "long" in line:
        print(f"regard: line {number} is long", file=sys.stderr, flush=True)
    print(line.rstrip("\\n").upper(), flush=True)
"""


def own(lines, numbers):
    return [f"{line.upper()}" for line in lines]


@pytest.fixture
def two():
    said: list[str] = []
    made = LineWorkers(2, [sys.executable, "-c", UPPER], said.append)
    yield made, said
    made.close()
    assert all(process.poll() is not None for process in made._processes)


def test_answers_come_in_the_order_of_the_lines(two):
    made, _ = two
    for count, first in ((1, 1), (2, 2), (3, 4), (1000, 7), (0, 1007)):
        lines = [f"é line {i} " + "x" * (i % 300) for i in range(count)]
        assert made.answer(lines, first, own) == [line.upper() for line in lines]


def test_what_they_say_names_the_lines_of_the_whole(two):
    made, said = two
    made.answer(["a", "b", "c", "d"], 1, own)
    made.answer(["a", "long b", "c", "d", "e", "long f"], 5, own)
    made.close()
    for ear in made._ears:
        ear.join(5)
    assert sorted(said) == ["line 10 is long", "line 6 is long"]


def test_the_share_of_one_that_died_is_answered_here(two):
    made, _ = two
    lines = ["a", "die", "c", "d", "e", "f"]
    for _ in range(2):
        assert made.answer(lines, 1, own) == [line.upper() for line in lines]


def test_only_much_work_on_a_cpu_is_shared(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(4)))
    assert worker_count("cpu", workers.WORTH) == 4
    assert worker_count("cpu", workers.WORTH - 1) == worker_count("cpu", None) == worker_count("cuda", 999) == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert worker_count("cpu", 999) == 1


def test_a_file_is_translated_as_by_one_process(model, tmp_path):
    words = ["je", "suis", "étudiant", "gare", "livre", "sûr"]
    lines = [f"{words[i % 6]} est {'oui' if i % 5 else 'fois'}." if i % 50 else "" for i in range(310)]
    assert len(lines) > workers.WORTH
    text = "".join(f"{line}\n" for line in lines).encode()
    file = tmp_path / "fr.txt"
    file.write_bytes(text)
    environment = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
    command = [
        sys.executable,
        "-m",
        "regard",
        "translate",
        "--model",
        model,
        "--beam",
        "1",
        "--device",
        "cpu",
        "--scores",
    ]
    with file.open("rb") as stream:
        shared = subprocess.run(command, stdin=stream, capture_output=True, env=environment, check=True)
    alone = subprocess.run(
        command, input=text, capture_output=True, env=environment, check=True
    )  # a pipe is not shared
    found, expected = shared.stdout.decode().splitlines(), alone.stdout.decode().splitlines()
    assert len(found) == 310 and [line.split("\t")[0] for line in found] == [line.split("\t")[0] for line in expected]
