"""Bulk work on a real Ray cluster on this machine: every line once, in order, the bytes of the local run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from docs.test_snippets import run

from regard.ray.input_files import Input
from regard.ray.output_folder import OutputFolder

from .conftest import LINES, ROOT, cluster, corpus, shards


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[None]:
    before = ray_processes()
    with cluster(2):
        yield
    wait(lambda: ray_processes() <= before, "Ray left processes behind")


def ray_processes() -> set[int]:
    return {
        process.pid for process in psutil.process_iter(["name"]) if process.info["name"] in ("raylet", "gcs_server")
    }


def wait(until: Callable[[], bool], what: str, seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def test_a_file_and_the_pipelines_of_the_page(model: str, two_nodes: None, tmp_path: Path, run_regard) -> None:
    """One test for all, because connecting takes seconds."""
    import ray

    source = corpus(tmp_path / "in.txt", 300)
    options = ("translate", "-m", model, "--input", source, "--shards", 6)
    run_regard(*options, "--output", tmp_path / "local", "-q")
    wanted = shards(tmp_path / "local")
    # As if the command had been killed: one shard is there, and half of another.
    out = OutputFolder(tmp_path / "out")
    files = [replace(file, rows=300) for file in Input(str(source)).files()]
    with out.held():
        plan = out.start(files, json.loads((tmp_path / "local" / ".plan.json").read_text())["settings"], 6)
        out.publish(plan, 1, b"finished before\n" * 50, {"kind": [2, 60, "was odd"]})
    (out.folder / ".003-of-006.txt.host.1.00000000.tmp").write_text("half")
    printed, told = run_regard(*options, "--output", out.folder, "--on", "auto")
    assert printed == ""
    assert shards(out.folder) == wanted | {"002-of-006.txt": b"finished before\n" * 50}
    lines = told.splitlines()
    assert lines[-1] == f"regard: all 300 lines are in {out.folder} (shards: 6)"
    assert "regard: line 60 was odd (and 1 more)" in lines
    assert "regard: line 151 is longer than the model's 127 tokens and was split into 4 parts" in lines
    assert "regard: line 299 is not valid UTF-8; invalid bytes were replaced by U+FFFD" in lines
    try:
        run((ROOT / "docs" / "bulk.md").read_text(encoding="utf-8"), "bulk.md")  # joins the same cluster
    finally:
        ray.shutdown()


@pytest.mark.slow
def test_other_commands_and_tables(two_nodes: None, tmp_path: Path, run_regard) -> None:
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"id": n, "t": text}) + "\n" for n, text in enumerate(LINES)))
    (tmp_path / "in.txt").write_text("".join(f"{text}\n" for text in LINES))
    options = ("generate", "shakespeare", "--length", 5)
    run_regard(*options, "--input", tmp_path / "in.txt", "-o", tmp_path / "local")
    run_regard(*options, "--input", tmp_path / "in.txt", "-o", tmp_path / "out", "--on", "auto")
    assert shards(tmp_path / "local") == shards(tmp_path / "out")
    table = ("--input", tmp_path / "in.jsonl", "--column", "t", "--key", "id", "-o", tmp_path / "table")
    run_regard(*options, *table, "--on", "auto", "--json")
    rows = [json.loads(line) for line in shards(tmp_path / "table")["001-of-001.jsonl"].splitlines()]
    plain = shards(tmp_path / "out")["001-of-001.txt"].decode().splitlines()
    assert [(row["key"], f"{row['prompt']}{row['text']}".replace("\n", " ")) for row in rows] == list(enumerate(plain))


@pytest.mark.slow
def test_ray_started_here_leaves_nothing_behind(model: str, tmp_path: Path, run_regard) -> None:
    before = ray_processes()
    source = corpus(tmp_path / "in.txt", 50)
    run_regard("translate", "-m", model, "--input", source, "--output", tmp_path / "local", "-q")
    run_regard("translate", "-m", model, "--input", source, "--output", tmp_path / "out", "--on", "local", "-q")
    assert shards(tmp_path / "out") == shards(tmp_path / "local")
    wait(lambda: ray_processes() <= before, "Ray left processes behind")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_200_000_lines_one_node_and_the_driver_killed(model: str, tmp_path: Path) -> None:
    source, out = corpus(tmp_path / "in.txt", 200_000), tmp_path / "out"
    command = [
        sys.executable,
        "-m",
        "regard",
        "translate",
        "-q",
        "-m",
        model,
        "--input",
        str(source),
        "--shards",
        "100",
    ]

    def finished() -> int:
        return len(shards_of(out))

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen([*command, "--output", str(out), "--on", "auto"], env=os.environ)

    with cluster(3) as nodes:
        subprocess.run([*command, "--output", str(tmp_path / "local")], check=True)
        driver = start()
        wait(lambda: finished() >= 10 or driver.poll() is not None, "the first shards")
        nodes.remove_node(list(nodes.worker_nodes)[0], allow_graceful=False)
        with_all = finished()
        wait(lambda: finished() >= with_all + 10 or driver.poll() is not None, "more shards with one node less")
        driver.send_signal(signal.SIGKILL)
        assert driver.wait() == -signal.SIGKILL, "it was killed in the middle"
        before = shards_of(out)
        assert 20 <= len(before) < 100
        assert start().wait() == 0
    assert before.items() <= shards_of(out).items()  # what was finished is not touched again
    assert shards(out) == shards(tmp_path / "local")


def shards_of(folder: Path) -> dict[str, tuple[int, int]]:
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.glob("[!.]*")}
