"""`regard generate`: streamed text, JSON, MIDI files, terminals, pipes and interrupts."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import mido
import pytest
import torch

import regard as package
from regard.assemble import build_model, resolve_model
from regard.cli.generate import _encoded
from regard.config import Data, Decoding, Recipe
from regard.data.midi import midi
from regard.data.music import read_steps
from regard.data.tokenizer.character import Character
from regard.data.tokenizer.word import Word
from regard.loading import model_files
from regard.storage import write_folder
from regard.types import END

from .conftest import command, environment, regard


def saved(folder: Path, tokenizer, endless: bool = True) -> str:
    """A model with random weights that, if `endless`, never comes to an end."""
    torch.manual_seed(3)
    shape = resolve_model(
        {
            "kind": "language_model",
            "layers": 1,
            "width": 16,
            "heads": 2,
            "feed_forward": 16,
            "norm": "pre",
            "tie": False,
        }
    )
    model = build_model(shape, len(tokenizer))
    with torch.no_grad():
        model.decoder.output.weight.normal_(std=0.3)
        if endless:
            model.decoder.norm.bias.fill_(1.0)
            model.decoder.output.weight[END] = -100.0
    recipe = Recipe(
        task="generate",
        model=shape,
        data=Data(max_length=12),
        decoding=Decoding(max_length=20),
        tokenizer={"kind": "word"},
    )
    weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
    write_folder(folder, model_files(recipe, tokenizer, weights, "float32"))
    return str(folder)


@pytest.fixture(scope="module")
def writer(tmp_path_factory) -> str:
    return saved(tmp_path_factory.mktemp("m") / "words", Word.train(["a b c d e f g h i j k l"], seed=1))


@pytest.fixture(scope="module")
def musician(tmp_path_factory) -> str:
    return saved(tmp_path_factory.mktemp("m") / "music", Word.train(["60 62 64 65 67 | | |"], seed=1))


def test_what_python_gives(writer, run_regard):
    task = package.load(writer)
    wanted = task.generate("a b", seed=7, length=30, temperature=0.7, top_k=8, top_p=0.9)
    options = ("--seed", "7", "--length", "30", "--temperature", "0.7", "--top-k", "8", "--top-p", "0.9")
    out, err = run_regard("generate", writer, "a b", *options)
    assert out == f"{wanted}\n" and out.startswith("a b ") and err == ""
    assert len(run_regard("generate", writer, "--seed", "1")[0].split()) == 20  # the recipe's length; from nothing
    assert run_regard("generate", writer, "--seed", "1")[0] == f"{task.generate('', seed=1)}\n"


def test_several_texts_and_a_seed_of_one_s_own(writer, run_regard):
    out, _ = run_regard("generate", writer, "a", "--count", "3", "--seed", "5", "--length", "6")
    assert out.split("---\n") == [
        run_regard("generate", writer, "a", "--seed", str(seed), "--length", "6")[0] for seed in (5, 6, 7)
    ]
    assert len({run_regard("generate", writer)[0] for _ in range(3)}) > 1  # without a seed, always another text


def test_how_sure_the_model_was(writer, run_regard):
    wanted = package.load(writer).generate("a b", seed=7, length=5)
    rows = [
        line.split("\t")
        for line in run_regard("generate", writer, "a b", "--seed", "7", "--length", "5", "--scores")[0].splitlines()
    ]
    assert [token for token, _ in rows] == wanted.tokens
    assert [float(p) for _, p in rows] == pytest.approx(wanted.probabilities, abs=1e-4)
    lines = run_regard("generate", writer, "a b", "--seed", "7", "--length", "5", "--format", "json", "--count", "2")[
        0
    ].splitlines()
    one, two = map(json.loads, lines)
    assert (one["prompt"], one["text"], one["tokens"], one["seed"]) == ("a b", wanted.text, wanted.tokens, 7)
    assert one["probabilities"] == wanted.probabilities and one["finished"] is False and two["seed"] == 8


def test_a_text_that_ends(tmp_path, run_regard):
    model = saved(tmp_path / "m", Word.train(["a b"], seed=1), endless=False)
    found = [json.loads(run_regard("generate", model, "--seed", s, "--format", "json")[0]) for s in map(str, range(8))]
    ended = next(one for one in found if one["finished"])
    assert ended["tokens"][-1] == "</s>" and len(ended["text"].split()) == len(ended["tokens"]) - 1
    assert run_regard("generate", model, "--seed", str(ended["seed"]))[0] == ended["text"] + "\n"


def test_lines_stay_lines(tmp_path, run_regard):
    model = saved(tmp_path / "m", Character.train(["a\n\tb"], seed=1, exact=True))
    out, _ = run_regard("generate", model, "a\n\n\tb", "--seed", "1", "--length", "4")
    assert out.startswith("a\n\n\tb")
    run_regard("generate", model, "a\n\n\tb", "--seed", "1", "--length", "4", "-o", tmp_path / "text.txt")
    assert (tmp_path / "text.txt").read_bytes().decode() == out


def test_files(writer, tmp_path, run_regard):
    file = tmp_path / "out.txt"
    options = ("--seed", "7", "--length", "5", "--count", "2")
    for more in ((), ("--scores",), ("--format", "json")):
        out, _ = run_regard("generate", writer, "a", *options, *more)
        assert run_regard("generate", writer, "a", *options, *more, "-o", file) == ("", "")
        assert file.read_text() == out
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]  # nothing half-written is left
    (tmp_path / "folder").mkdir()
    _, err = run_regard("generate", writer, "a", "-o", tmp_path / "folder", code=2)
    assert err.startswith("regard: cannot write") and err.count("\n") == 1


def test_music_as_a_file(musician, tmp_path, run_regard):
    file = tmp_path / "piece.mid"
    text, _ = run_regard("generate", musician, "60 64|", "--seed", "2", "--length", "40")
    run_regard(
        "generate",
        musician,
        "60 64|",
        "--seed",
        "2",
        "--length",
        "40",
        "--format",
        "midi",
        "--tempo",
        "120",
        "-o",
        file,
    )
    assert file.read_bytes() == midi(read_steps(text), 120)
    played = [m for m in mido.MidiFile(file=io.BytesIO(file.read_bytes())).tracks[0] if m.type == "note_on"]
    assert {m.note for m in played} <= {60, 62, 64, 65, 67} and {m.note for m in played[:2]} == {60, 64}
    (length,) = [sum(m.time for m in t) for t in mido.MidiFile(file).tracks]
    assert length == len(read_steps(text)) * 480


def test_refused_in_one_line(writer, musician, model, tmp_path, run_regard):
    mid = ("--format", "midi", "-o", tmp_path / "x.mid")
    cases = [
        ((writer, "a", *mid), "this model writes text, not music"),
        ((musician, "hello", *mid), "'hello' is no pitch"),
        ((musician, "61"), "never heard pitch 61"),
        ((musician, *mid, "--count", "2"), "holds one piece"),
        ((musician, *mid, "--tempo", "5"), "--tempo: "),
        ((writer, "--length", "0", "--format", "json"), "--length 0 never ends"),
        ((writer, "--length", "0", "-o", tmp_path / "x"), "--length 0 never ends"),
        ((writer, "--temperature", "0"), "(from 0.01 to 100)"),
        ((writer, "--temperature", "101"), "(from 0.01 to 100)"),
        ((writer, "--top-p", "0"), "top_p"),
        ((writer, "--top-k", "-1"), "--top-k: "),
        ((writer, "--seed", str(2**63)), "--seed: "),
        ((model, "a"), "made to translate, not to generate"),
        ((tmp_path / "nothing", "a"), "no model"),
    ]
    for words, message in cases:
        out, err = run_regard("generate", *words, code=2)
        assert message in err and err.startswith("regard: ") and err.count("\n") == 1 and out == ""
    assert not list(tmp_path.iterdir())


def test_unknown_words_are_said(writer, run_regard):
    assert "does not know every word" in run_regard("generate", writer, "a zebra", "--seed", "1")[1]
    assert run_regard("generate", writer, "a zebra", "--seed", "1", "--quiet")[1] == ""


def started(*words: str, **options) -> subprocess.Popen:
    return subprocess.Popen(
        command(*words), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
    )


def test_text_comes_at_once_and_ctrl_c_ends_it(writer):
    process = started("generate", writer, "a b c", "--length", "0", "--seed", "1")
    assert process.stdout and process.stderr
    seen = os.read(process.stdout.fileno(), 100_000)
    assert 0 < len(seen) < 1000  # not when some buffer was full
    while len(seen.split()) < 40:  # nor at the end, for there is none
        seen += os.read(process.stdout.fileno(), 1000)
    assert seen.startswith(b"a b c ")
    process.send_signal(signal.SIGINT)
    process.stdout.read()
    assert process.wait(60) == 130 and process.stderr.read() == b""


def test_nobody_reads_any_more(writer):
    process = started("generate", writer, "--length", "0", "--seed", "1")
    assert process.stdout and process.stderr
    os.read(process.stdout.fileno(), 10)
    process.stdout.close()
    assert process.wait(60) == 141 and process.stderr.read() == b""


def test_terminals_are_not_steered_and_get_no_midi(musician, tmp_path):
    model = saved(tmp_path / "m", Character(["\u009b", "b"], exact=True))
    for words, code, wanted in (
        (("generate", model, "b", "--length", "200", "--seed", "1", "--temperature", "100"), 0, b""),
        (
            ("generate", musician, "--format", "midi"),
            2,
            b"regard: a MIDI file is not for reading; give it a name: -o piece.mid\n",
        ),
    ):
        here, there = pty.openpty()
        process = subprocess.Popen(command(*words), env=environment(), stdout=there, stderr=subprocess.PIPE)
        os.close(there)
        shown = b""
        while True:
            try:
                piece = os.read(here, 10000)
            except OSError:
                break
            shown += piece
            if not piece:
                break
        os.close(here)
        assert process.wait(60) == code
        assert process.stderr and process.stderr.read() == wanted
        text = shown.replace(b"\r\n", b"\n").decode()
        assert not any(ord(c) < 32 and c != "\n" or 127 <= ord(c) < 160 for c in text)


def test_what_two_bytes_spell_is_shown_and_not_obeyed(monkeypatch):
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(isatty=lambda: True))
    assert _encoded("a\x9b1\nb") == b"a\\x9b1\nb"
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(isatty=lambda: False))
    assert _encoded("a\x9b1") == "a\x9b1".encode()


def test_help_says_what_there_is():
    text = regard("generate", "--help").stdout.decode()
    for option in (
        "--temperature",
        "--top-k",
        "--top-p",
        "--seed",
        "--length",
        "--count",
        "--format",
        "--output",
        "--tempo",
    ):
        assert option in text
