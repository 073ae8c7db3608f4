"""Measured processes and commands, and the measurements that use them or time a single step."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from regard.assemble import build_model
from regard.bench import _ctranslate2 as peer
from regard.bench import _ours, _transformers, busy, cpu_decode, growth, translate_file
from regard.bench._benchmark import Setting
from regard.bench._process import MeasuredProcess, children, idle_mib, peak_mib, run_measured, take_turns
from regard.bench._text import TextFile, made_lines, read_lines, sample
from regard.child_process import child_environment, python_command
from regard.errors import UserError
from regard.interchange.write.ctranslate2 import export

SERVE = "import time; from regard.bench._process import serve; "
SLEEP = SERVE + "serve(lambda pause: print('noise') or (lambda: time.sleep(pause)))"
HOLD = SERVE + "serve(lambda mib: (lambda kept: lambda: len(kept))(b'x' * (mib << 20)))"
BROKEN = SERVE + "serve(lambda: 1 / 0)"


def test_they_take_turns_and_say_how_long_a_call_took():
    with MeasuredProcess(SLEEP, pause=0.01) as short, MeasuredProcess(SLEEP, pause=0.4) as long:
        take_turns([short, long], rounds=3, pause=0.0)
    assert len(short.times) == len(long.times) == 3
    assert min(short.times) >= 0.01 and min(long.times) >= 0.4
    assert short.median() < 0.2


@pytest.mark.skipif(peak_mib() is None, reason="this system does not say")
def test_memory_is_that_of_the_contestant_alone():
    ballast = bytearray(b"x" * (200 << 20))  # the parent's own must not count
    with MeasuredProcess(HOLD, mib=1) as light, MeasuredProcess(HOLD, mib=100) as heavy:
        more = heavy.memory() - light.memory()
    assert 90 < more < 150 and len(ballast) > 0
    assert idle_mib("json") < 100 < idle_mib("torch")


def test_one_that_fails_is_noticed(capfd):
    with pytest.raises(RuntimeError, match="ended with code 1"), MeasuredProcess(BROKEN):
        pass
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_a_command_is_measured_without_the_process_that_starts_it(tmp_path):
    ballast = bytearray(b"x" * (200 << 20))
    code = "import sys, time; held = b'x' * (40 << 20); time.sleep(0.2); print(sys.stdin.read().upper())"
    (tmp_path / "in").write_text("bonjour")
    took = run_measured([sys.executable, "-c", code], tmp_path / "in", tmp_path / "out")
    assert (tmp_path / "out").read_text() == "BONJOUR\n"
    assert took.wall >= 0.2
    if took.mib is not None:
        assert 40 < took.mib < 100 < len(ballast) / 2**20


@pytest.mark.skipif(not hasattr(os, "wait4"), reason="this system does not say")
def test_processor_seconds_are_those_of_the_work():
    work = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    rest = "import time; time.sleep(0.3)"
    busy_cpu, idle_cpu = (run_measured([sys.executable, "-S", "-c", code]).cpu for code in (work, rest))
    assert idle_cpu < 0.25 <= 0.3 <= busy_cpu


def test_a_command_that_fails_is_an_error():
    with pytest.raises(subprocess.CalledProcessError):
        run_measured([sys.executable, "-c", "raise SystemExit(3)"])


def test_busy_processes_end_with_their_block():
    with pytest.raises(RuntimeError), busy.busy(2) as processes:
        assert [process.poll() for process in processes] == [None, None]
        if os.path.isdir("/proc"):
            assert {process.pid for process in processes} <= set(children(os.getpid()))
        raise RuntimeError
    assert all(process.poll() is not None for process in processes)


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="needs /proc")
def test_busy_processes_end_when_the_benchmark_is_killed():
    code = "from regard.bench.busy import busy\nwith busy(1) as (one,):\n    print(one.pid, flush=True)\n    input()"
    command = python_command("-c", code)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=child_environment()) as parent:
        pid = int(parent.stdout.readline())
        os.kill(pid, 0)
        parent.kill()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        status = Path(f"/proc/{pid}/stat")
        if not status.exists() or ") Z " in status.read_text():  # gone, or only nobody has waited for it
            return
        time.sleep(0.05)
    pytest.fail("it still runs")


def test_a_text_is_generated_or_read(tmp_path):
    lines = made_lines(3000)
    assert len(set(lines)) == 3000 and lines[:5] == made_lines(5)
    assert len({len(line.split()) for line in lines}) > 20  # of many lengths
    assert sample(lines, 3) == [lines[0], lines[1000], lines[2000]] and sample(lines[:2], 3) == lines[:2]
    text = TextFile(tmp_path, ["eins", "zwei"])
    assert read_lines(text.path) == ["eins", "zwei"]
    (tmp_path / "blank").write_text(" \n\n")
    with pytest.raises(UserError, match="no sentences"):
        read_lines(tmp_path / "blank")


@pytest.mark.parametrize("file", [peer.__file__, _transformers.__file__])
def test_the_scripts_of_the_peers_need_nothing_of_ours(file):
    code = "import runpy, sys; runpy.run_path(sys.argv[1]); print({'torch', 'regard'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-P", "-c", code, file], capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("threads", [(1, 1), (2, 1)])
def test_both_decode_the_same_tokens_on_the_cpu(width, threads, tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", "")  # restored after the test
    torch.manual_seed(5)
    folder, pieces = cpu_decode.random_model(tmp_path, {"preset": "tiny", "layers": 1}, 200)
    export(folder, tmp_path / "float32", "float32")
    ids = cpu_decode.random_sources(200, 3)
    ours = _ours.decoding(str(folder), "float32", ids, width, 32)()
    words = [[pieces[i] for i in row] for row in ids]
    theirs = peer.decoding(str(tmp_path / "float32"), "float32", words, width, 32, list(threads))()
    assert [[pieces[i] for i in row] for row in ours] == theirs
    assert all(len(row) == 32 for row in theirs)


def test_our_side_needs_no_torch_either(tmp_path):
    folder, _ = cpu_decode.random_model(tmp_path, {"preset": "tiny", "layers": 1}, 60)
    code = (
        "import sys; from regard.bench._ours import decoding; "
        "decoding(sys.argv[1], 'int8', [[9] * 31], 4, 32)(); print('torch' in sys.modules)"
    )
    command = python_command("-c", code, str(folder))
    done = subprocess.run(command, env=child_environment(), capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


def test_one_sentence_is_not_divided_among_workers():
    assert (peer.cores(), 1) not in peer.ways(1) or peer.cores() == 1
    assert {(1, 1), (1, peer.cores()), (peer.cores(), 1)} == set(peer.ways(64))


def test_a_line_that_gets_lost_is_noticed(tmp_path):
    text = TextFile(tmp_path, made_lines(9))
    copy = "import sys; sys.stdout.write(sys.stdin.read())"
    assert translate_file._translated([sys.executable, "-c", copy], text).wall > 0
    with pytest.raises(UserError, match="9 lines went in, but 8"):
        lose = copy.replace("read()", "read().partition('\\n')[2]")
        translate_file._translated([sys.executable, "-c", lose], text)


def test_the_fastest_peer_is_compared(tmp_path, monkeypatch):
    copy = "import sys, time; time.sleep({}); sys.stdout.write(sys.stdin.read())"
    ours, slow, fast = ([sys.executable, "-S", "-c", copy.format(pause)] for pause in (0.1, 0.6, 0.3))
    monkeypatch.setattr(translate_file, "python_command", lambda *arguments: ours)
    text = TextFile(tmp_path, made_lines(2))
    row = translate_file.file_row(
        Setting(torch.device("cpu")), "copying", text, {"slow": slow, "fast": fast}, goal=1.0, rounds=2
    )
    assert row.notes["its threads"] == "fast" and row.met and row.goal == ">= 1.0"
    assert row.ours > row.theirs and row.verdict == pytest.approx(row.ours / row.theirs)


def test_a_step_is_measured_where_it_says(monkeypatch):
    model = build_model({"preset": "tiny", "layers": 1}, 50).eval()
    seen, step = [], model.decoder.step

    def watched(ids, state):
        seen.append((int(state.position), ids.shape[1], state.cache[0].shape[1]))
        return step(ids, state)

    monkeypatch.setattr(model.decoder, "step", watched)
    work = growth.step_at(model, 50, 2, torch.device("cpu"), 32, 100)()
    for _ in range(3):
        work()
    assert seen == [(0, 32, 100), *[(32, 1, 100)] * 3]
