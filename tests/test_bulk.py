"""Sharded processing of a file: each line exactly once, also with many processes and after kills."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard import bulk
from regard.atomic_files import ABANDONED, this_host
from regard.bulk import Shards
from regard.errors import UserError
from regard.locking import hold, hold_in_turn

ROOT = Path(__file__).parents[1]
WORKER = """
import os, sys, time
from pathlib import Path
from regard import bulk

source, folder, log = map(Path, sys.argv[1:4])
nap, shards = float(sys.argv[4]), int(sys.argv[5])
bulk.CHUNK_BYTES, bulk.POLL_SECONDS = 64, 0.02
assert "torch" not in sys.modules

def answer(lines, first):
    time.sleep(nap)
    with log.open("a") as out:
        out.write(f"{os.getpid()} {first} {len(lines)}\\n")
    return [f"{number} {line.decode().upper()}" for number, line in enumerate(lines, first)]

bulk.Shards(source, folder, {"voice": "loud"}, shards).run(answer)
"""


def shout(lines: list[bytes], first: int) -> list[str]:
    return [f"{number} {line.decode().upper()}" for number, line in enumerate(lines, first)]


def corpus(count: int) -> list[str]:
    return [f"ligne {i} " + "mot " * (i % 7) if i % 5 else "" for i in range(count)]


def wanted(lines: list[str]) -> str:
    return "".join(f"{number} {line.upper()}\n" for number, line in enumerate(lines, 1))


def whole(folder: Path) -> str:
    """What `cat OUT/*` prints."""
    return "".join(path.read_text() for path in sorted(folder.glob("[!.]*")))


def worker(source: Path, out: Path, log: Path, nap: float, shards: int = 9) -> subprocess.Popen:
    arguments = map(str, (source, out, log, nap, shards))
    command = [sys.executable, "-c", WORKER, *arguments]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)})


@given(st.integers(0, 50), st.integers(1, 60))
def test_shards_are_contiguous_and_even(lines: int, shards: int) -> None:
    plan = bulk.Plan(0, 0, "", lines, shards, {})
    starts = [plan.lines_before(shard) for shard in range(shards + 1)]
    sizes = [after - before for before, after in zip(starts, starts[1:])]
    assert starts[0] == 0 and starts[-1] == lines and max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("ending", ["txt", "gz", "xz", "zst"])
def test_all_lines_in_order(tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import zstandard

    monkeypatch.setattr(bulk, "CHUNK_BYTES", 100)
    packers: dict[str, Callable[[bytes], bytes]] = {
        "txt": bytes,
        "gz": gzip.compress,
        "xz": lzma.compress,
        "zst": zstandard.compress,
    }
    lines, source = corpus(100), tmp_path / f"in.{ending}"
    source.write_bytes(packers[ending]("\n".join(lines).encode()))  # the last line lacks its end
    heard: list[int] = []
    work = Shards(source, tmp_path / "out", {}, 12)
    work.run(shout, heard.append)
    assert whole(tmp_path / "out") == wanted(lines)
    names = sorted(path.name for path in (tmp_path / "out").glob("[!.]*"))
    assert names == [f"{number:03}-of-012.txt" for number in range(1, 13)]
    assert heard == sorted(heard) and heard[-1] == 100 and len(heard) > 24
    assert not list((tmp_path / "out").glob(".0*"))  # no claims, nothing half-written


def test_hardly_anything(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "three").write_text("a\n\nb\n")
    Shards(tmp_path / "empty", tmp_path / "none", {}).run(shout)
    assert whole(tmp_path / "none") == "" and (tmp_path / "none" / "001-of-001.txt").exists()
    Shards(tmp_path / "three", tmp_path / "many", {}, 5).run(shout)
    assert whole(tmp_path / "many") == "1 A\n2 \n3 B\n" and len(list((tmp_path / "many").glob("*.txt"))) == 5


def test_the_usual_number_of_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").write_text("x\n" * 101)
    monkeypatch.setattr(bulk, "SHARD_LINES", 10)
    assert Shards(tmp_path / "in", tmp_path / "a", {}).plan.shards == 11
    monkeypatch.setattr(bulk, "MAX_SHARDS", 4)
    assert Shards(tmp_path / "in", tmp_path / "b", {}).plan.shards == 4


@pytest.mark.parametrize("kills", [6, pytest.param(40, marks=pytest.mark.slow)])
def test_each_line_once_after_kills(tmp_path: Path, kills: int) -> None:
    lines, source, out, log = corpus(300), tmp_path / "in.txt", tmp_path / "out", tmp_path / "log"
    source.write_text("\n".join(lines) + "\n")
    draw, shards = random.Random(kills), 2 * kills  # each takes some 0.15 s, so that kills fall on all of them
    finished: dict[str, int] = {}
    killed_at_work = 0
    for _ in range(kills):
        process = worker(source, out, log, 0.0016 * shards, shards)
        time.sleep(draw.uniform(0.05, 0.6))
        process.send_signal(signal.SIGKILL)
        killed_at_work += process.wait() == -signal.SIGKILL
        there = {path.name: path.stat().st_ino for path in out.glob("[!.]*")} if out.exists() else {}
        assert there.items() >= finished.items()  # what was finished is not touched again
        finished = there
    assert killed_at_work > kills / 2
    assert worker(source, out, log, 0, shards).wait() == 0
    assert whole(out) == wanted(lines)
    assert not list(out.glob(".0*"))


def test_a_claim_whose_process_died_at_the_last_moment_is_taken_away(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("x\n" * 20)
    work = Shards(tmp_path / "in", tmp_path / "out", {}, 4)
    work.run(shout)
    for left in (".002-of-004.lock", ".003-of-004.lock"):
        (tmp_path / "out" / left).write_text("1\n")
    with hold(tmp_path / "out" / ".003-of-004.lock"):
        work.run(shout)
        assert [path.name for path in (tmp_path / "out").glob(".0*")] == [".003-of-004.lock"]  # somebody holds it
    work.run(shout)
    assert not list((tmp_path / "out").glob(".0*"))


def test_two_at_once_share_the_work(tmp_path: Path) -> None:
    lines, source, out, log = corpus(300), tmp_path / "in.txt", tmp_path / "out", tmp_path / "log"
    source.write_text("\n".join(lines) + "\n")
    both = [worker(source, out, log, 0.01) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    assert whole(out) == wanted(lines)
    answered = [tuple(map(int, line.split())) for line in log.read_text().splitlines()]
    assert {process for process, _, _ in answered} == {process.pid for process in both}
    numbers = [number for _, first, count in answered for number in range(first, first + count)]
    assert sorted(numbers) == list(range(1, 301))  # nobody did what another did


def test_one_takes_over_from_one_that_is_killed(tmp_path: Path) -> None:
    lines, source, out, log = corpus(60), tmp_path / "in.txt", tmp_path / "out", tmp_path / "log"
    source.write_text("\n".join(lines) + "\n")
    stuck = worker(source, out, log, 600)
    while not list(out.glob(".0*.lock")):
        time.sleep(0.01)
    other = worker(source, out, log, 0)
    while len(list(out.glob("[!.]*"))) < 8:
        time.sleep(0.01)
    time.sleep(0.1)
    assert other.poll() is None, "it must wait: an end without failure means that everything is there"
    stuck.kill()
    stuck.wait()
    assert other.wait(20) == 0 and whole(out) == wanted(lines)


def test_another_piece_of_work_is_refused(tmp_path: Path) -> None:
    source, out = tmp_path / "in.txt", tmp_path / "out"
    source.write_text("a\nb\nc\n")
    Shards(source, out, {"model": "one", "beam": 4}, 2)

    def refused(words: str, settings: dict[str, object], shards: int | None = None) -> None:
        with pytest.raises(UserError, match=words) as caught:
            Shards(source, out, settings, shards)
        assert "\n" not in str(caught.value)

    same: dict[str, object] = {"model": "one", "beam": 4}
    refused("was started with model one, not two", {**same, "model": "two"})
    refused("was started with beam 4, not None", {"model": "one"})
    refused("was started with shards 2, not 3", same, 3)
    refused("shards must be between", same, 0)
    assert Shards(source, out, same).plan.shards == 2
    os.utime(source, ns=(0, 10**18))
    Shards(source, out, same).run(shout)  # the same text with another date
    source.write_text("a\nb\nd\n")
    refused("was started with another input", same)
    source.write_text("a\nb\nc\nd\n")
    refused("was started with another input", same)
    (out / ".plan.json").write_text("{")
    refused("is not a valid plan", same)


def test_places_that_will_not_do(tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_text("a\n")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").touch()
    with pytest.raises(UserError, match="already holds other files"):
        Shards(source, tmp_path / "full", {})
    with pytest.raises(UserError, match="cannot be written"):
        Shards(source, source, {})
    with pytest.raises(UserError, match=r"in.tx does not exist; did you mean 'in.txt'"):
        Shards(tmp_path / "in.tx", tmp_path / "out", {})
    (tmp_path / "cut.xz").write_bytes(lzma.compress(random.Random(0).randbytes(1000))[:-50])
    with pytest.raises(UserError, match=r"cut.xz, after line .* cannot be read"):
        Shards(tmp_path / "cut.xz", tmp_path / "out", {})
    assert not (tmp_path / "out" / ".plan.json").exists()


@pytest.mark.parametrize("text", ["a\nB\nc\nd\n", "a\nb\n", "a\nb\nc\nd\ne\n"], ids=["same size", "shorter", "longer"])
@pytest.mark.parametrize("renamed", [True, False], ids=["replaced", "in place"])
def test_no_shard_is_made_of_an_input_that_changed(tmp_path: Path, text: str, renamed: bool) -> None:
    source, out = tmp_path / "in.txt", tmp_path / "out"
    source.write_text("a\nb\nc\nd\n")
    asked: list[int] = []

    def rewriting(lines: list[bytes], first: int) -> list[str]:
        asked.append(first)
        if first == 3:  # the second of two shards is being answered
            new = tmp_path / "new"
            new.write_text(text)
            if renamed:
                new.replace(source)
            else:
                source.write_text(text)
        return shout(lines, first)

    with pytest.raises(UserError, match="changed while it was read") as caught:
        Shards(source, out, {}, 2).run(rewriting)
    assert "\n" not in str(caught.value) and asked == [1, 3]
    assert whole(out) == "1 A\n2 B\n" and not list(out.glob(".*.tmp"))
    source.write_text("a\nb\nc\nd\n")  # as it was, with another date
    Shards(source, out, {}, 2).run(shout)
    assert whole(out) == "1 A\n2 B\n3 C\n4 D\n"


def test_an_input_that_loses_lines_on_the_way(tmp_path: Path) -> None:
    source, out = tmp_path / "in.txt", tmp_path / "out"
    source.write_text("a\nb\nc\n")
    work = Shards(source, out, {}, 3)
    source.write_text("a\nb c\n")
    with pytest.raises(UserError, match="changed while it was read"):
        work.run(shout)
    assert whole(out) == ""  # no file that looks finished
    source.unlink()
    with pytest.raises(UserError, match="cannot be read"):
        work.run(shout)
    assert whole(out) == ""


def test_an_input_that_is_only_touched_is_read_again(tmp_path: Path) -> None:
    source, out = tmp_path / "in.txt", tmp_path / "out"
    source.write_text("a\nb\nc\n")
    times = iter(range(1, 100))

    def touching(lines: list[bytes], first: int) -> list[str]:
        if (number := next(times)) <= touches:
            os.utime(source, ns=(number, number))
        return shout(lines, first)

    touches = 3
    Shards(source, out, {}, 3).run(touching)
    assert whole(out) == "1 A\n2 B\n3 C\n"
    touches = 100
    with pytest.raises(UserError, match="modified repeatedly"):
        Shards(source, tmp_path / "never", {}, 3).run(touching)
    assert whole(tmp_path / "never") == ""


def test_a_change_that_leaves_no_trace_is_found_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, out = tmp_path / "in.txt", tmp_path / "out"
    source.write_text("a\nb\n")
    monkeypatch.setattr(bulk, "_stamp", lambda source: (4, 5, 6))  # times as coarse as can be

    def rewriting(lines: list[bytes], first: int) -> list[str]:
        source.write_text("c\nd\n")
        return shout(lines, first)

    with pytest.raises(UserError, match=r"changed while it was read; its shards were removed"):
        Shards(source, out, {}, 2).run(rewriting)
    assert whole(out) == ""


def test_an_input_that_changes_while_its_lines_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, out = tmp_path / "in.txt", tmp_path / "out"
    source.write_text("a\nb\n")
    with pytest.raises(UserError, match="changed while its lines were counted"):
        Shards(source, out, {}, note=lambda text: source.write_text("a\nb\nc\n"))  # type: ignore[arg-type, return-value]
    assert not (out / ".plan.json").exists() and not list(out.glob(".*.tmp"))


# ------------------------------------------------------------------------------- file systems without shared locks


def test_what_is_not_on_the_disk_as_it_was_written_gets_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").write_text("a\nb\n")
    work = Shards(tmp_path / "in", tmp_path / "out", {}, 1)

    def disturbed(lines: list[bytes], first: int) -> list[str]:
        (half,) = (tmp_path / "out").glob(".0*.tmp")
        half.write_bytes(bytes(100))
        return shout(lines, first)

    with pytest.raises(UserError, match="does not hold what was written"):
        work.run(disturbed)
    assert whole(tmp_path / "out") == "" and not list((tmp_path / "out").glob(".0*.tmp"))


def test_only_what_dead_processes_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("a\n")
    out = tmp_path / "out"
    work = Shards(tmp_path / "in", out, {}, 1)
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    host = this_host()
    names = {
        f".001-of-001.txt.{host}.{ended.pid}.00000000.tmp": 0,
        f".001-of-001.txt.{host}.{os.getpid()}.00000000.tmp": 0,  # alive
        f".001-of-001.txt.{host}.{os.getpid()}.00000001.tmp": ABANDONED + 60,  # alive, and slow
        f".001-of-001.txt.elsewhere.{ended.pid}.00000000.tmp": 0,  # who knows
        f".001-of-001.txt.elsewhere.{ended.pid}.00000001.tmp": ABANDONED + 60,
        ".001-of-001.txt.tmp": ABANDONED + 60,  # of an earlier version
    }
    for name, age in names.items():
        (out / name).write_text("half")
        os.utime(out / name, (time.time() - age,) * 2)
    work.run(shout)
    assert {path.name for path in out.glob(".*.tmp")} == set(list(names)[1:4])
    assert whole(out) == "1 A\n"


def test_a_lost_line_is_a_bug_and_not_a_shift(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("a\nb\n")
    with pytest.raises(RuntimeError, match="2 lines went in but 1 came out"):
        Shards(tmp_path / "in", tmp_path / "out", {}, 1).run(lambda lines, first: ["x"])
    assert whole(tmp_path / "out") == ""


def test_the_plan_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("a\nb\n")
    Shards(tmp_path / "in", tmp_path / "out", {"beam": 4}, 2)
    plan = json.loads((tmp_path / "out" / ".plan.json").read_text())
    assert (plan["size"], plan["lines"], plan["shards"], plan["settings"]) == (4, 2, 2, {"beam": 4})


def test_memory_does_not_grow_with_the_input(tmp_path: Path) -> None:
    with (tmp_path / "in").open("wb") as out:
        for _ in range(100):
            out.write(b"some words that are here to take up space and nothing else\n" * 10_000)
    code = (
        "import resource, sys; from pathlib import Path; from regard.bulk import Shards\n"
        "work = Shards(Path(sys.argv[1]), Path(sys.argv[2]), {}, 3); before = resource.getrusage(0).ru_maxrss\n"
        "work.run(lambda lines, first: ['x'] * len(lines)); print(resource.getrusage(0).ru_maxrss - before)"
    )
    grown = subprocess.check_output(
        [sys.executable, "-c", code, tmp_path / "in", tmp_path / "out"], env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert int(grown) < 20_000, f"grew by {int(grown) / 1000:.0f} MB over an input of 59 MB"
    assert sum(path.stat().st_size for path in (tmp_path / "out").glob("[!.]*")) == 2_000_000


def test_what_is_held_is_held_until_its_process_ends(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    code = "import sys, time; from pathlib import Path; from regard.locking import hold\n"
    code += "lock = hold(Path(sys.argv[1])); print(lock is not None, flush=True); time.sleep(600)"
    with subprocess.Popen(
        [sys.executable, "-c", code, path], env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == b"True\n"
        assert hold(path) is None and path.read_text() == f"{other.pid}\n"
        other.kill()
        with hold_in_turn(path, 0.01):
            assert path.read_text() == f"{os.getpid()}\n" and hold(path) is None
    again = hold(path)
    assert again is not None
    again.close()
