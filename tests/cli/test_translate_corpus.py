"""`regard translate --input FILE --output FOLDER`: the lines that standard input gives, wherever it is interrupted."""

from __future__ import annotations

import gzip
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from regard.cli import bulk as module
from regard.cli.terminal import Format
from regard.cli.translate import translate
from regard.errors import UserError

from .conftest import LINES, command, environment, regard


def corpus(path: Path, count: int) -> Path:
    """Lines of all kinds: empty, with a mark at the start of the file, not UTF-8, too long for the model."""
    draw = random.Random(1)
    words = " ".join(LINES).split()
    lines = [" ".join(draw.choices(words, k=draw.randrange(1, 12))).encode() for _ in range(count)]
    lines[0] = b"\xef\xbb\xbf" + lines[0]
    lines[3], lines[-2], lines[count // 2] = b"", b"caf\xe9", b"mot " * 300
    path.write_bytes(gzip.compress(b"\r\n".join(lines)))
    return path


def whole(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.glob("[!.]*")))


def plainly(model: str, source: Path, *options: str) -> bytes:
    done = regard("translate", "--model", model, *options, input=gzip.decompress(source.read_bytes()))
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_each_line_once_after_kills(model: str, tmp_path: Path, kills: int) -> None:
    source, out = corpus(tmp_path / "in.gz", 1500 + 500 * kills), tmp_path / "out"
    options = ["--n-best", "2"]
    given = ["translate", "--model", model, "--input", str(source), "--output", str(out), "--shards", "30", *options]
    draw, killed = random.Random(kills), 0
    for _ in range(kills):
        with subprocess.Popen(command(*given), env=environment(), stderr=subprocess.DEVNULL) as process:
            while process.poll() is None and not list(out.glob(".0*.tmp")):  # it takes seconds to get to work
                time.sleep(0.01)
            time.sleep(draw.uniform(0, 0.3))
            process.send_signal(signal.SIGKILL)
            killed += process.wait() == -signal.SIGKILL
    assert killed > kills / 2
    done = regard(*given, text=True)
    assert done.returncode == 0 and done.stdout == ""
    assert done.stderr.splitlines()[-1] == f"regard: all {1500 + 500 * kills:,} lines are in {out} (shards: 30)"
    assert whole(out) == plainly(model, source, *options)


@pytest.mark.slow
def test_torchrun_divides_the_work(model: str, tmp_path: Path) -> None:
    source, out = corpus(tmp_path / "in.gz", 2000), tmp_path / "out"
    run = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0", "-m", "regard"]
    given = ["translate", "--model", model, "--input", str(source), "--output", str(out), "--shards", "12"]
    done = subprocess.run([*run, *given], env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("all 2,000 lines are in") == 1
    assert whole(out) == plainly(model, source)


def test_wrong_bytes_and_long_lines_are_said_with_their_numbers(model: str, tmp_path: Path, capfd) -> None:
    source = corpus(tmp_path / "in.gz", 40)
    translate(model=[model], input=str(source), output=tmp_path / "out", shards=3)
    out, err = capfd.readouterr()
    assert out == ""
    assert "regard: line 12 has an empty translation; it is left as it is" in err.splitlines()
    assert [line for line in err.splitlines() if "an empty translation" not in line] == [
        f"regard: counting the lines of {source}",
        "regard: line 21 is longer than the model's 127 tokens and was split into 4 parts",
        "regard: line 39 is not valid UTF-8; invalid bytes were replaced by U+FFFD",
        f"regard: all 40 lines are in {tmp_path / 'out'} (shards: 3)",
    ]
    assert whole(tmp_path / "out").count(b"\n") == 40
    translate(model=[model], input=str(source), output=tmp_path / "other", quiet=True)
    assert capfd.readouterr() == ("", "")
    assert whole(tmp_path / "other") == whole(tmp_path / "out")


def test_progress_is_told_in_lines_of_all(model: str, tmp_path: Path, capfd, monkeypatch) -> None:
    monkeypatch.setattr(module, "PROGRESS_INTERVAL", 0)
    translate(
        model=[model], input=str(corpus(tmp_path / "in.gz", 40)), output=tmp_path / "out", shards=4, batch_tokens=50
    )
    told = [line for line in capfd.readouterr().err.splitlines() if " of 40 lines" in line]
    counts = [int(line.split()[1]) for line in told]
    assert counts == sorted(counts) and counts[-1] == 40 and len(counts) > 8
    monkeypatch.setenv("RANK", "1")  # of several processes under torchrun only the first speaks
    translate(model=[model], input=str(tmp_path / "in.gz"), output=tmp_path / "out")
    assert capfd.readouterr().err == ""


def test_the_same_command_goes_on_and_another_is_refused(model: str, tmp_path: Path) -> None:
    source = corpus(tmp_path / "in.gz", 40)
    place = {"input": str(source), "output": tmp_path / "out", "quiet": True}
    translate(model=[model], format=Format.json, **place)
    translate(model=[model], format=Format.json, beam=2, batch_tokens=99, **place)  # this model's own beam is 2
    assert [path.name for path in (tmp_path / "out").glob("[!.]*")] == ["001-of-001.jsonl"]
    for change, words in (
        ({"beam": 3}, "was started with beam 2, not 3"),
        ({"format": Format.text}, "was started with format json, not text"),
        ({"alignment": True}, "was started with alignment False, not True"),
        ({"model": ["fr-en"]}, r"was started with model [0-9a-f]{16}, not [0-9a-f]{16}"),
    ):
        with pytest.raises(UserError, match=words):
            translate(**{"model": [model], "format": Format.json, **place, **change})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"input": "in.gz"}, "needs both --input FILE and --output FOLDER"),
        ({"output": Path("out")}, "needs both --input FILE and --output FOLDER"),
        ({"shards": 3}, "needs both --input FILE and --output FOLDER"),
        ({"input": "in.gz", "output": Path("out"), "texts": ["x"]}, "either text or --input"),
        ({"input": __file__, "output": Path("out"), "beam": 0}, "beam and n-best must lie between"),
        ({"input": "no.gz", "output": Path("out")}, "no.gz does not exist"),
    ],
)
def test_mistakes_leave_nothing_behind(model: str, options, words: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=words):
        translate(model=[model], **options)
    assert not list(tmp_path.iterdir())
