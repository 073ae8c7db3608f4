"""Contestants in their own processes, and the measurements that use them or time a single step."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from regard.assemble import build_model
from regard.bench import _ctranslate2 as peer
from regard.bench import cpu_decode, growth, translate_file
from regard.bench._process import MeasuredProcess, idle_mib, peak_mib, take_turns
from regard.child_process import child_environment, python_command
from regard.data.tokenizer._base import SPECIALS
from regard.errors import UserError
from regard.interchange.ctranslate2 import write
from regard.weights import save_weights

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


def test_the_peer_needs_no_torch():
    code = "import sys, regard.bench._process, regard.bench._ctranslate2; print('torch' in sys.modules)"
    done = subprocess.run(python_command("-c", code), env=child_environment(), capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("threads", [(1, 1), (2, 1)])
def test_both_decode_the_same_tokens_on_the_cpu(width, threads, tmp_path):
    pytest.importorskip("ctranslate2")
    torch.manual_seed(5)
    tree = {"preset": "tiny", "layers": 1}
    model = build_model(tree, 200).eval()
    (tmp_path / cpu_decode.WEIGHTS).write_bytes(save_weights(dict(model.named_parameters())))
    pieces = SPECIALS + [f"t{i}" for i in range(len(SPECIALS), 200)]
    write(model, pieces, tmp_path / "float32")
    ids = torch.randint(4, 200, (3, 31)).tolist()
    ours = cpu_decode.ours(str(tmp_path), tree, 200, "float32", ids, width, 32)()
    words = [[pieces[i] for i in row] for row in ids]
    theirs = peer.decoding(str(tmp_path / "float32"), "float32", words, width, 32, list(threads))()
    assert [[pieces[i] for i in row] for row in ours] == theirs
    assert all(len(row) == 32 for row in theirs)


def test_one_sentence_is_not_divided_among_workers():
    assert (peer.cores(), 1) not in peer.ways(1) or peer.cores() == 1
    assert {(1, 1), (1, peer.cores()), (peer.cores(), 1)} == set(peer.ways(64))


def test_a_line_that_gets_lost_is_noticed(tmp_path):
    source = translate_file._made(tmp_path / "source.txt", 1)
    lines = len(translate_file.LINES)
    copy = "import sys; sys.stdout.write(sys.stdin.read())"
    assert translate_file._seconds([sys.executable, "-c", copy], source, tmp_path / "out", lines) > 0
    with pytest.raises(UserError, match=f"{lines} lines went in, but {lines - 1}"):
        lose = copy.replace("read()", "read().partition('\\n')[2]")
        translate_file._seconds([sys.executable, "-c", lose], source, tmp_path / "out", lines)


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
