"""Processes that are killed: torchrun starts them again, and the run goes on by itself."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
import torch
import torch.distributed

from regard.config import Recipe
from regard.errors import UserError
from regard.runs import restarts, train
from regard.runs.restarts import begun_before_restart, remember_launch
from regard.runs.training_run import new_folder
from regard.storage import read_folder
from regard.training import distributed
from regard.training.ranks import Ranks
from tests.training.ranks import launch

TINY = ["sst2-lstm", "--tiny", "--device", "cpu", "--steps", "16"]
SETTINGS = ["training.accumulate=2", "training.save_every=2", "training.log_every=1", "training.average=1"]
WITHOUT_DROPOUT = [
    f"model.{name}=0.0" for name in ("head_dropout", "stem.dropout", "stem.word_dropout", "encoder.dropout")
]


def checkpoints(run: Path) -> set[str]:
    return {path.name for path in (run / "checkpoints").glob("step-*")}


def same_model(one: Path, other: Path, **tolerance: float) -> None:
    weights, others = (read_folder(run / "model").weights() for run in (one, other))
    assert weights.keys() == others.keys()
    for name, tensor in weights.items():
        torch.testing.assert_close(others[name], tensor, **(tolerance or {"rtol": 0, "atol": 0}))


def test_a_killed_process_is_replaced_and_the_run_goes_on(tmp_path: Path) -> None:
    """Without --output, so that the restart must find the folder. The result is that of one process, undisturbed."""
    settings = [*SETTINGS, *WITHOUT_DROPOUT]
    options = ["--standalone", "--max-restarts", "1"]
    process = launch("tests.training.ranks", "fail:killed:1", "train", *TINY, *settings, options=options, cwd=tmp_path)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    (run,) = (tmp_path / "runs").iterdir()
    assert f"restarted: going on with {run.relative_to(tmp_path)}" in err and re.search(
        r"going on from step [24]\n", err
    ), err
    one = tmp_path / "one"
    train("sst2-lstm", "training.steps=16", *settings, tiny=True, device="cpu", out=one, quiet=True)
    same_model(one, run, rtol=2e-3, atol=2e-4)


@pytest.mark.slow
def test_five_kills_in_a_run_change_nothing(tmp_path: Path) -> None:
    """Whichever process is killed, and whenever: each time after a new checkpoint, at a random moment."""
    settings = ["training.accumulate=2", "training.save_every=20", "training.average=1", "--steps", "2000"]
    command = ["regard", "train", "sst2-lstm", "--tiny", "--device", "cpu", *settings, "--output"]
    undisturbed = launch(*command, str(tmp_path / "one"))
    said, err = undisturbed.communicate(timeout=300)
    assert undisturbed.returncode == 0, err
    run, chance = tmp_path / "run", random.Random(3)
    process = launch(*command, str(run), options=["--standalone", "--max-restarts", "5"])
    for _ in range(5):
        known, end = checkpoints(run), time.monotonic() + 120
        while not checkpoints(run) - known:
            assert time.monotonic() < end and process.poll() is None, process.communicate()
            time.sleep(0.01)
        time.sleep(chance.random())
        chance.choice(psutil.Process(process.pid).children()).kill()
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert err.count("restarted: going on with") == 5, err
    same_model(tmp_path / "one", run)
    assert out.replace(str(run), str(tmp_path / "one")) == said, "the same scores"


# ---------------------------------------------------------------------------------------------------------- two nodes


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Nodes:
    """Several torchrun agents on this machine, each with one process; they meet at a port of the first."""

    def __init__(self, folder: Path, *command: str) -> None:
        self.folder, self.command, self.port = folder, command, free_port()
        self.started: list[subprocess.Popen[str]] = []

    def start(self) -> subprocess.Popen[str]:
        number = len(self.started)
        rendezvous = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{self.port}", "--rdzv-id", "job-7"]
        patience = ["--rdzv-conf", "last_call_timeout=2,keep_alive_interval=1,keep_alive_max_attempt=3"]
        options = ["--nnodes", "1:2", "--max-restarts", "3", *rendezvous, *patience, "--local-addr", "127.0.0.1"]
        process = launch(
            *self.command,
            ranks=1,
            options=options,
            env={"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"},
            stdout=(self.folder / f"out-{number}").open("w"),
            stderr=(self.folder / f"err-{number}").open("w"),
        )
        self.started.append(process)
        end = time.monotonic() + 60
        while number == 0 and not self._meeting_point():  # whoever comes first owns it
            assert time.monotonic() < end and process.poll() is None, self.said(0)
            time.sleep(0.1)
        return process

    def _meeting_point(self) -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", self.port)) == 0

    def said(self, number: int) -> str:
        return (self.folder / f"err-{number}").read_text()

    def wait_for(self, run: Path, count: int) -> None:
        """Until a further `count` checkpoints are written."""
        known, end = checkpoints(run), time.monotonic() + 120
        while len(checkpoints(run) - known) < count:
            assert time.monotonic() < end and self.started[0].poll() is None, self.said(0)
            time.sleep(0.02)

    def stop(self) -> None:
        for process in self.started:
            kill_all(process)


def kill_all(process: subprocess.Popen[str]) -> None:
    """A node that is gone: torchrun and all below it."""
    with contextlib.suppress(psutil.NoSuchProcess):
        below = psutil.Process(process.pid).children(recursive=True)
        for each in [psutil.Process(process.pid), *below]:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
    process.wait()


@pytest.mark.slow
def test_the_run_goes_on_when_a_node_dies_and_when_another_takes_its_place(tmp_path: Path) -> None:
    run = tmp_path / "run"
    settings = ["training.accumulate=2", "training.save_every=50", "training.average=1", *WITHOUT_DROPOUT]
    nodes = Nodes(tmp_path, "regard", "train", *TINY, "--steps", "2500", *settings, "--output", str(run))
    try:
        nodes.start(), nodes.start()
        nodes.wait_for(run, 2)
        kill_all(nodes.started[1])
        nodes.wait_for(run, 2)
        assert nodes.said(0).count("restarted: going on with") == 1, "alone"
        nodes.start()
        assert nodes.started[0].wait(300) == 0 and nodes.started[2].wait(60) == 0, nodes.said(0) + nodes.said(2)
    finally:
        nodes.stop()
    together = "".join(nodes.said(number) for number in (0, 2))
    assert together.count("restarted: going on with") == 2, together
    assert "2 processes train together" in together.rpartition("restarted: going on with")[2], "both at the end"
    alone = train(
        "sst2-lstm", "training.steps=2500", *settings, tiny=True, device="cpu", out=tmp_path / "one", quiet=True
    )
    said = "".join((tmp_path / f"out-{number}").read_text() for number in (0, 2))
    assert said.count("accuracy") == 1 and f"(accuracy {alone.scores['accuracy']:.2f}, " in said, said


@pytest.mark.slow
def test_a_process_that_does_not_answer_any_more_is_replaced(tmp_path: Path) -> None:
    """Stopped, as one looks whose machine has lost its network: its connections stay open."""
    options = ["--standalone", "--max-restarts", "1"]
    command = ["fail:frozen:1", "train", *TINY, *SETTINGS, "--output", str(tmp_path / "run")]
    process = launch("tests.training.ranks", *command, options=options)
    out, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    assert "rank 1 does not answer any more; torchrun starts all again" in err and "restarted: going on with" in err


# ------------------------------------------------------------------------------------------------ its parts, by itself


def test_only_the_ranks_of_one_start_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store still has what an earlier start left, and its rank 0 answered ranks of its own."""
    store = torch.distributed.HashStore()
    left = torch.distributed.PrefixStore("regard", store)
    left.set("start", "old"), left.set("old/here/1", "a"), left.set("old/here/2", "b")
    left.set("old/answers", json.dumps(["old", "a", "b"]))
    with ThreadPoolExecutor(3) as pool:
        others = [pool.submit(distributed._meet, store, rank, 3) for rank in (1, 2)]
        time.sleep(0.2)
        assert not any(other.done() for other in others), "there is no rank 0 yet"
        met = [pool.submit(distributed._meet, store, 0, 3).result(20), *(other.result(20) for other in others)]
    met[0].set("word", "seen by all")
    assert [one.get("word") for one in met] == [b"seen by all"] * 3
    monkeypatch.setattr(distributed, "JOIN_TIMEOUT", timedelta(seconds=0.2))
    with pytest.raises(UserError, match="rank 1 has waited .* for the other 2 processes"):
        distributed._meet(torch.distributed.HashStore(), 1, 3)


@pytest.mark.parametrize("asked", [False, True])
def test_a_rank_that_no_longer_counts_is_reported(asked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(distributed, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(distributed, "SILENT_SECONDS_STOPPING" if asked else "SILENT_SECONDS", 0.2)
    monkeypatch.setattr(os, "_exit", lambda code: None)
    store, left, ranks = torch.distributed.HashStore(), threading.Event(), Ranks(0, 2)
    ranks.asked_to_stop = lambda: asked
    monkeypatch.setattr(distributed, "GRACE_SECONDS", 0.0)
    watching = threading.Thread(target=distributed._watch, args=(ranks, store, left))
    watching.start()
    for _ in range(20):
        store.add("alive/1", 1)
        time.sleep(0.02)
    assert not ranks.lost and store.add("alive/0", 0) > 0
    end = time.monotonic() + 20
    while not ranks.lost and time.monotonic() < end:
        time.sleep(0.02)
    left.set()
    watching.join(20)
    assert ranks.lost and "rank 1 does not answer any more" in store.get(distributed.FAILED).decode()


def test_a_launch_goes_on_with_its_own_run_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = replace(Recipe(), name="some")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "job-1")
    place = new_folder(recipe)
    remember_launch(place)
    assert new_folder(recipe) == Path("runs/some-2"), "a second run of the same process is another one"
    monkeypatch.setattr(restarts, "_begun", set())  # as in a new process
    assert new_folder(recipe) == place and begun_before_restart(place)
    for other in ("job-2", "none", ""):
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", other)
        assert not begun_before_restart(place) and new_folder(recipe) == Path("runs/some-2")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", "/tmp/torchelastic_x/none_k3f/attempt_0/0/error.json")
    remember_launch(place)
    monkeypatch.setattr(restarts, "_begun", set())
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", "/tmp/torchelastic_x/none_k3f/attempt_1/0/error.json")
    assert begun_before_restart(place)
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", "/tmp/torchelastic_x/none_b9c/attempt_1/0/error.json")
    assert not begun_before_restart(place)
