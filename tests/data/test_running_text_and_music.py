"""Running text and chorales, read or refused in one line; music as MIDI files."""

import gzip
import io
import json

import mido
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.config import Data
from regard.data.format.chorales import Chorales
from regard.data.format.made_chorales import MadeChorales
from regard.data.format.made_text import MadeText
from regard.data.format.running_text import RunningText
from regard.data.midi import Note, midi, notes
from regard.data.music import bar_of, read_steps, tidy, write_steps
from regard.data.normalise import as_written
from regard.data.splitting import read_parts
from regard.data.tokenizer import from_files, resolved
from regard.data.tokenizer.character import Character
from regard.data.tokenizer.word import Word
from regard.errors import UserError

PIECES = {
    "train": [[[60, 64, 67], [], [59, 62]], [[48]]],
    "valid": [[[72, 60]]],
    "test": [[[1, -1, 0, -1]], [[127]]],
}


@pytest.fixture
def chorales(tmp_path):
    file = tmp_path / "pieces.json.gz"
    file.write_bytes(gzip.compress(json.dumps(PIECES).encode()))
    return file


# Running text.


def test_a_text_is_cut_once_and_nothing_is_lost_or_shared(tmp_path):
    text = "".join(f"line {i}\n" for i in range(100))
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("a.txt", "b.txt.gz"):
        files = [tmp_path / name]
        parts = {part: RunningText().read(files, part)[0].target for part in ("train", "valid", "test")}
        assert parts["train"] + parts["valid"] == text and parts["valid"] == parts["test"]
        assert len(parts["train"]) == int(0.9 * len(text))
        assert RunningText(share=0.25).read(files, "train")[0].target == text[: len(text) // 4]
        assert RunningText(share=1).read(files, "train") == RunningText(share=1).read(files, "valid") == [("", text)]
    assert len(RunningText().read([tmp_path / "a.txt", tmp_path / "b.txt.gz"], "train")) == 2


def test_it_is_read_by_a_recipe_that_names_it_for_every_part(tmp_path):
    (tmp_path / "a.txt").write_text("to be or not to be\n" * 10)
    named = [str(tmp_path / "a.txt")]
    parts = read_parts(Data(format={"kind": "running_text"}, train=named, valid=named, test=named))
    assert [len(part) for part in (parts.train, parts.valid, parts.test)] == [1, 1, 1]


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"", {}, "holds no text"),
        (b"   \n", {}, "holds no text"),
        (b"ab", {"share": 0.1}, "too little text"),
        (b"\xff\xfe", {}, "UTF-8"),
        (b"text", {"share": 0.0}, "share"),
        (b"text", {"share": 1.5}, "share"),
    ],
)
def test_texts_that_are_none(tmp_path, content, options, message):
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(UserError, match=message) as refused:
        RunningText(**options).read([tmp_path / "a.txt"], "train")
    assert "\n" not in str(refused.value)


# Characters as they are written.


@given(st.text(st.characters(exclude_categories=("Cc", "Cs"), include_characters="\n\t")))
def test_exact_characters_come_back(text):
    tokenizer = Character.train(["to be,\n\tor not"], seed=1, exact=True)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert "".join(tokenizer.surfaces(tokenizer.encode(text))) == text


@given(st.text())
def test_only_control_characters_go(text):
    seen = as_written(text)
    assert as_written(seen) == seen
    tokenizer = Character(["a", "\n"], exact=True)
    assert tokenizer.decode(tokenizer.encode(text)) == seen


def test_exact_is_saved_and_off_unless_wanted():
    text = "a  b\r\n\n\tc \x1b[0m"
    exact = Character.train([text], seed=1, exact=True)
    again = from_files(exact.files())
    assert again.encode(text) == exact.encode(text) and again.decode(again.encode(text)) == "a  b\n\n\tc [0m"
    assert again.pieces(again.encode(" \n\t")) == ["\u2581", "\u21b5", "\u21e5"]
    plain = Character.train([text], seed=1)
    assert from_files(plain.files()).decode(plain.encode(text)) == "a b c [0m"
    older = {"tokenizer.json": json.dumps({"kind": "character", "characters": ["a"]}).encode()}
    assert from_files(older).decode(from_files(older).encode("a \n a")) == "a a"
    assert resolved({"kind": "character"})["exact"] is False


# Chorales.


def test_a_piece_is_a_line(chorales):
    assert Chorales().read([chorales], "train") == [("", "60 64 67 | | 59 62 |"), ("", "48 |")]
    assert Chorales().read([chorales], "valid") == [("", "60 72 |")]
    assert Chorales().read([chorales], "test") == [("", "0 1 |"), ("", "127 |")]


def test_transposed_copies_are_only_trained_on(chorales):
    found = [example.target for example in Chorales(transpose=2).read([chorales], "train")]
    assert len(found) == 5 * 2
    assert found[0] == "58 62 65 | | 57 60 |" and found[-1] == "50 |"
    assert found.count("60 64 67 | | 59 62 |") == 1
    assert len(Chorales(transpose=2).read([chorales], "test")) == 2
    chorales.write_bytes(gzip.compress(json.dumps({"train": [[[126]]]}).encode()))
    found = [example.target for example in Chorales(transpose=2).read([chorales], "train")]
    assert found == ["124 |", "125 |", "126 |", "127 |"]  # there is no pitch 128


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("no json", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "no list of pieces"),
        ('{"valid": []}', "no list of pieces"),
        ('{"train": [7]}', "piece 1: is no list of steps"),
        ('{"train": [[]]}', "is no list of steps"),
        ('{"train": [[[60]], [7]]}', "piece 2: is no list of steps"),
        ('{"train": [[[60, 128]]]}', "128 is no pitch"),
        ('{"train": [[["60"]]]}', "is no pitch"),
        ('{"train": [[[true]]]}', "is no pitch"),
        ('{"train": [[[60.5]]]}', "is no pitch"),
        ('{"train": [[[-2]]]}', "is no pitch"),
    ],
)
def test_files_that_are_none(tmp_path, content, message):
    (tmp_path / "pieces.json").write_text(content)
    with pytest.raises(UserError, match=message) as refused:
        Chorales().read([tmp_path / "pieces.json"], "train")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("transpose", [-1, 13])
def test_transpositions_that_are_none(transpose):
    with pytest.raises(UserError, match="transpose"):
        Chorales(transpose=transpose)


# What is made here.


@pytest.mark.parametrize("made", [MadeText, MadeChorales])
def test_made_parts_differ_and_seeds_count(made):
    parts = [tuple(e.target for e in made(count=30).read([], part)) for part in ("train", "valid", "test")]
    assert len(set(parts)) == 3
    assert made(count=30).read([], "train") == made(count=30).read([], "train") != made(30, seed=2).read([], "train")
    for wrong in ({"count": 0}, {"seed": -1}):
        with pytest.raises(UserError):
            made(**wrong)


def test_made_text_agrees_with_itself():
    (example,) = MadeText(count=200).read([], "train")
    lines = example.target.splitlines()
    assert len(lines) == 200 and example.target.endswith("\n")
    for line in lines:
        speaker, said = line.split(": ")
        first, second = said.rstrip(".").split(" me, and ")
        the, _, noun, verb = first.split()
        pronoun, again, you = second.split()
        assert speaker.isupper() and (the, you) == ("the", "you")
        many = pronoun == "they"
        assert noun.endswith("s") == many and verb.endswith("s") == again.endswith("s") == (not many)


def test_made_chorales_are_music_of_four_parts():
    for example in MadeChorales(count=50).read([], "train"):
        steps = read_steps(example.target)
        assert all(len(step) == 4 for step in steps) and write_steps(steps) == example.target
        assert steps[0] == steps[-1] and len(example.target.split()) <= 128


# Music as text, and as MIDI.

steps_of = st.lists(st.frozensets(st.integers(0, 127), max_size=5).map(lambda step: tuple(sorted(step))), max_size=12)


@given(steps_of)
def test_music_comes_back(steps):
    assert read_steps(write_steps(steps)) == steps
    assert tidy(write_steps(steps).replace(" |", "|")) == write_steps(steps)


def test_music_as_models_write_it():
    assert read_steps("64 60 60 | 59") == [(60, 64), (59,)]
    assert read_steps("") == [] and read_steps(" | |") == [(), ()]
    assert tidy(" 60  64|59") == "60 64 | 59"
    for wrong in ("C4 |", "128 |", "-1 |", "6.5 |", "0x10 |", "\u0663 |"):
        with pytest.raises(UserError, match="is no pitch"):
            read_steps(wrong)
        with pytest.raises(UserError):
            tidy(wrong)


def test_what_speaks_music_is_seen_by_its_words():
    tokenizer = Word.train(["60 64 | 59 |"], seed=1)
    assert tokenizer.pieces([bar_of(tokenizer)]) == ["\u2581|"]
    assert tokenizer.decode(tokenizer.encode("60 64 | 59 |")) == "60 64 | 59 |"
    assert bar_of(Word.train(["60 64"], seed=1)) is None
    assert bar_of(Word.train(["60 64 | and"], seed=1)) is None
    assert bar_of(Word.train(["200 |"], seed=1)) is None
    assert bar_of(Character.train(["60 64 |"], seed=1)) is None


def parsed(content: bytes) -> tuple[list[Note], float, float]:
    """Notes (in steps), tempo and length in steps, as a program reads them that is not ours."""
    file = mido.MidiFile(file=io.BytesIO(content))
    (track,) = file.tracks
    time, tempo, sounding, found = 0, 0.0, {}, []
    for message in track:
        time += message.time
        if message.type == "set_tempo":
            tempo = mido.tempo2bpm(message.tempo)
        elif message.type == "note_on":
            assert message.note not in sounding and message.velocity > 0
            sounding[message.note] = time
        elif message.type == "note_off":
            found.append(Note(message.note, sounding.pop(message.note), time))
    assert not sounding
    ticks = file.ticks_per_beat
    return [Note(n.pitch, n.start / ticks, n.stop / ticks) for n in found], tempo, time / ticks


def test_held_notes_are_one():
    steps = [(60, 64), (60, 65), (), (60,), (60,)]
    assert notes(steps) == [(60, 0, 2), (64, 0, 1), (65, 1, 2), (60, 3, 5)]


@given(steps_of)
def test_a_midi_file_holds_the_notes(steps):
    found, tempo, length = parsed(midi(steps, tempo=120))
    assert sorted(found) == sorted(notes(steps)) and length == len(steps)
    assert tempo == pytest.approx(120)
    sounds = np.zeros((len(steps), 128), dtype=bool)
    for note in found:
        sounds[int(note.start) : int(note.stop), note.pitch] = True
    assert [tuple(np.flatnonzero(row)) for row in sounds] == steps


@pytest.mark.parametrize("tempo", [9, 1001, float("nan")])
def test_a_tempo_that_is_none(tempo):
    with pytest.raises(UserError, match="tempo"):
        midi([(60,)], tempo)
