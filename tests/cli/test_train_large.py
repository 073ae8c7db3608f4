"""`regard train` on a corpus that is still being read: killed and resumed; and a corpus that turns out to be broken."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from regard.storage import read_folder

from .conftest import LINES, command, environment, regard

SMALL = ["model.width=16", "model.heads=2", "model.layers=1", "model.feed_forward=16", "training.average=1"]
LARGE = [
    "data.part=300",
    "data.window=200",
    "data.hold_out_valid=10",
    "data.drop_duplicates=false",
    "tokenizer.size=400",
]


def corpus(folder: Path, lines: int, other: int) -> list[str]:
    draw, words = random.Random(1), " ".join(LINES).split()
    for name, count in (("a", lines), ("b", other)):
        text = "".join(" ".join(draw.choices(words, k=draw.randrange(3, 9))) + f" {i}\n" for i in range(count))
        (folder / name).write_text(text)
    return ["--source", str(folder / "a"), "--target", str(folder / "b"), "--device", "cpu"]


@pytest.mark.slow
def test_killed_while_the_corpus_is_packed_and_resumed(tmp_path: Path) -> None:
    settings = [*SMALL, *LARGE, "training.save_every=2", "training.batch_tokens=200", "training.steps=12"]
    given = ["train", *corpus(tmp_path, 30_000, 30_000), *settings]
    assert regard(*given, "--output", str(tmp_path / "alone")).returncode == 0
    run = tmp_path / "run"
    with subprocess.Popen(
        command(*given, "--output", str(run)), env=environment(), stderr=subprocess.DEVNULL
    ) as process:
        while not list(run.glob("checkpoints/step-*")):
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert not json.loads((run / "pack" / "pack.json").read_text())["whole"]
    assert regard("train", "--resume", str(run)).returncode == 0
    assert read_folder(run / "model").hash == read_folder(tmp_path / "alone" / "model").hash


@pytest.mark.slow
def test_what_is_wrong_far_into_the_corpus_is_one_line(tmp_path: Path) -> None:
    given = ["train", *corpus(tmp_path, 6000, 5999), *SMALL, *LARGE, "--quiet", "training.steps=100000"]
    done = regard(*given, "--output", str(tmp_path / "run"), text=True)
    assert done.returncode == 2 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("regard: ") and "a has 6000 lines but" in line and "b has 5999" in line
