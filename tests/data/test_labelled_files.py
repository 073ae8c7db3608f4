"""Formats that read a user's own clips and recordings: tracks, clip_folder, transcripts; and files read whole."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import soundfile
from PIL import Image

from regard.data.format.chorales import Chorales
from regard.data.format.clip_folder import ClipFolder
from regard.data.format.running_text import RunningText
from regard.data.format.skeleton import ACTIONS, JOINTS, Skeleton
from regard.data.format.spoken import Spoken
from regard.data.format.table import Table
from regard.data.format.tracks import Tracks
from regard.data.format.transcripts import Transcripts
from regard.errors import UserError

HEADER = "clip,frame,x,y\n"


def gif(frames: int, size: int = 12) -> bytes:
    """A bright column that moves a pixel to the right each frame."""
    pictures = []
    for number in range(frames):
        pixels = np.zeros((size, size), np.uint8)
        pixels[:, number] = 255
        pictures.append(Image.fromarray(pixels))
    file = io.BytesIO()
    pictures[0].save(file, format="GIF", save_all=True, append_images=pictures[1:])
    return file.getvalue()


def wav(length: int, rate: int = 8000) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, np.linspace(-0.5, 0.5, length), rate, format="WAV")
    return file.getvalue()


def packed(folder: Path, name: str, files: dict[str, bytes], as_zip: bool) -> Path:
    if as_zip:
        with zipfile.ZipFile(folder / f"{name}.zip", "w") as archive:
            for inner, content in files.items():
                archive.writestr(inner, content)
        return folder / f"{name}.zip"
    for inner, content in files.items():
        (folder / name / inner).parent.mkdir(parents=True, exist_ok=True)
        (folder / name / inner).write_bytes(content)
    return folder / name


def refusal(action, *arguments) -> str:
    with pytest.raises(UserError) as caught:
        action(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("as_zip", [True, False], ids=["zip", "folder"])
def test_tracks_are_clips_with_a_position_for_every_frame(tmp_path, as_zip):
    clips = packed(tmp_path, "clips", {"a/two.gif": gif(2), "three.gif": gif(3), "notes.txt": b"x"}, as_zip)
    rows = "three.gif,2,0.5,0.25\nthree.gif,1,0,1\nthree.gif,3,1,0\n\ntwo.gif,1,0.1,0.2\ntwo.gif,2,0.3,0.4\n"
    table = tmp_path / "positions.csv.gz"
    table.write_bytes(gzip.compress((HEADER + rows).encode()))
    for files in ([clips, table], [table, clips]):
        three, two = Tracks().read(files, "train")
        np.testing.assert_array_equal(three.target, np.array([[0, 1], [0.5, 0.25], [1, 0]], np.float32))
        assert three.input.shape[:3] == (3, 12, 12) and two.input.shape[:3] == (2, 12, 12)
        assert [int(frame[0, :, 0].argmax()) for frame in three.input] == [0, 1, 2]
        assert two.target.dtype == np.float32 and two.target.tolist() == pytest.approx(
            np.array([[0.1, 0.2], [0.3, 0.4]])
        )
    assert Tracks(shrink=6).read([clips, table], "all")[0].input.shape[:3] == (3, 6, 6)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("", "names no column 'clip'; write: clip,frame,x,y"),
        ("clip,frame,x\n", "names no column 'y'"),
        (HEADER, "holds no positions"),
        (HEADER + "three.gif,1,0,0\n", "'three.gif' has 3 frames, but frame 2 has no position; add it"),
        (HEADER + "".join(f"three.gif,{n},0,0\n" for n in (1, 2, 3, 4)), "there is no frame 4; take it out"),
        (HEADER + "three.gif,0,0,0\n", "line 2: '0' is not the number of a frame; they count from 1"),
        (HEADER + "three.gif,first,0,0\n", "line 2: 'first' is not the number of a frame"),
        (HEADER + "three.gif,1,0,0\nthree.gif,1,0,0\n", "line 3: frame 1 of 'three.gif' is there twice"),
        (HEADER + "three.gif,1,12,0\n", "line 2: '12' is not a position; x and y go from 0 (left, top) to 1"),
        (HEADER + "three.gif,1,0,nan\n", "line 2: 'nan' is not a position"),
        (HEADER + "three.gif,1,0,left\n", "line 2: 'left' is not a position"),
        (HEADER + "three.gif,1,0\n", "line 2: has 3 cells, but the first line names 4 columns"),
        (HEADER + "four.gif,1,0,0\n", "names 'four.gif', which is not in"),
        (HEADER + "notes.gif,1,0,0\n", "is no GIF that can be read"),
    ],
)
def test_tables_of_positions_that_are_refused(tmp_path, table, message):
    clips = packed(tmp_path, "clips", {"three.gif": gif(3), "notes.gif": b"no clip"}, True)
    (tmp_path / "t.csv").write_text(table)
    assert message in refusal(Tracks().read, [clips, tmp_path / "t.csv"], "train")


def test_tracks_need_an_archive_and_a_table(tmp_path):
    for files in ([], [tmp_path / "a.csv"], [tmp_path / "a.zip"], [tmp_path / "a.csv", tmp_path / "b.csv"]):
        assert "tracks reads two files per part, a zip or a folder and a table" in refusal(Tracks().read, files, "test")


@pytest.mark.parametrize("as_zip", [True, False], ids=["zip", "folder"])
def test_clips_are_named_by_their_folder(tmp_path, as_zip):
    clips = packed(tmp_path, "clips", {"jump/a.gif": gif(2), "run/b.GIF": gif(3), "run/x.txt": b"x"}, as_zip)
    found = ClipFolder().read([clips], "train")
    assert [(example.input.shape[:3], example.target) for example in found] == [
        ((2, 12, 12), "jump"),
        ((3, 12, 12), "run"),
    ]


def test_clips_without_a_class_are_refused(tmp_path):
    assert "is in no folder" in refusal(ClipFolder().read, [packed(tmp_path, "a", {"a.gif": gif(2)}, True)], "train")
    assert "no clips in it" in refusal(ClipFolder().read, [packed(tmp_path, "b", {"x/a.png": b""}, True)], "train")


@pytest.mark.parametrize("as_zip", [True, False], ids=["zip", "folder"])
def test_transcripts_are_recordings_with_their_text(tmp_path, as_zip):
    sounds = packed(tmp_path, "sounds", {"a.wav": wav(80), "in/b.wav": wav(160, 16000)}, as_zip)
    (tmp_path / "t.tsv").write_text("b.wav\tgood morning\na.wav\t hello \na.wav\t\n", encoding="utf-8")
    found = Transcripts().read([sounds, tmp_path / "t.tsv"], "train")
    assert [(len(one.input.samples), one.input.rate, one.target) for one in found] == [
        (160, 16000, "good morning"),
        (80, 8000, "hello"),
    ]
    (tmp_path / "t.tsv").write_text("c.wav\tgood morning\n")
    assert "names 'c.wav'" in refusal(Transcripts().read, [sounds, tmp_path / "t.tsv"], "train")
    assert "transcripts reads two files per part" in refusal(Transcripts().read, [sounds], "train")


# Files read whole: a user's own, which have no parts


def test_all_recordings_count_whatever_their_index_and_speaker(tmp_path):
    sounds = packed(
        tmp_path, "sounds", {f"{digit}_eva_{take}.wav": wav(80) for digit in (1, 7) for take in (3, 20)}, False
    )
    for format in (Spoken(), Spoken(unseen="theo")):
        assert [one.target for one in format.read([sounds], "all")] == ["one", "one", "seven", "seven"]
    assert len(Spoken().read([sounds], "test")) == 2
    assert len(Spoken(join=3, count=5).read([sounds], "all")) == 5


def test_all_subjects_count(tmp_path):
    joints = " ".join(str(10 + i % 7) for i in range(4 * JOINTS))
    rows = [f"{action}\t{subject}\t1\t1\t{joints}" for action, subject in ((1, 1), (2, 9), (3, 77))]
    (tmp_path / "s.tsv").write_text("\n".join(["action\tsubject\tepisode\tframe\tjoints", *rows]))
    assert [one.target for one in Skeleton().read([tmp_path / "s.tsv"], "all")] == list(ACTIONS[:3])
    assert [one.target for one in Skeleton().read([tmp_path / "s.tsv"], "train")] == [ACTIONS[0]]


def test_all_pieces_count_and_a_plain_list_is_whole(tmp_path):
    one, two, three = [[[60], [62]], [[64]], [[65, 69]]]
    (tmp_path / "parts.json").write_text(json.dumps({"train": [one], "valid": [two], "test": [three]}))
    (tmp_path / "list.json").write_text(json.dumps([one, two, three]))
    whole = Chorales().read([tmp_path / "parts.json"], "all")
    assert len(whole) == 3 and len(Chorales().read([tmp_path / "parts.json"], "test")) == 1
    for part in ("all", "train", "test"):
        assert Chorales().read([tmp_path / "list.json"], part) == whole
    (tmp_path / "list.json").write_text(json.dumps([one, [["c"]]]))
    assert "piece 2: c is no pitch" in refusal(Chorales().read, [tmp_path / "list.json"], "all")


def test_texts_and_series_are_whole(tmp_path):
    (tmp_path / "t.txt").write_text("abcdefghij" * 10)
    assert RunningText().read([tmp_path / "t.txt"], "all")[0].target == "abcdefghij" * 10
    (tmp_path / "t.csv").write_text("a,b\n" + "1,2\n" * 50)
    whole = Table().read([tmp_path / "t.csv"], "all")[0]
    assert len(whole.input) == 50 and whole.target.begin == 0
