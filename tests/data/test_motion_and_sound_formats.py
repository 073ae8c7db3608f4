"""Data formats of sound, motion and clips, from files and synthetic."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
import soundfile

from regard import registry
from regard.data.format import spoken
from regard.data.format._base import Example
from regard.data.format.made_clips import ACTIVITIES, BAR, RADIUS, MadeClips
from regard.data.format.made_motion import MOTIONS, MadeMotion
from regard.data.format.made_tones import TONES, MadeTones
from regard.data.format.skeleton import ACTIONS, HIP, JOINTS, NECK, Skeleton
from regard.data.format.spoken import DIGITS, Spoken
from regard.data.format.uea import Uea
from regard.data.input.sound import Sound
from regard.errors import UserError

PARTS = ("train", "valid", "test")

# Spoken digits


def recording(digit: int, speaker: str, take: int) -> np.ndarray:
    """A level that tells all three: digits by thousands, speakers by hundreds, takes by one."""
    level = 1000 * digit + 100 * ["anna", "ben"].index(speaker) + take
    return np.full(80, level, dtype=np.int16)


def content(samples: np.ndarray, rate: int = 8000) -> bytes:
    stream = io.BytesIO()
    soundfile.write(stream, samples, rate, format="WAV", subtype="PCM_16")
    return stream.getvalue()


@pytest.fixture(scope="module")
def recordings() -> dict[str, bytes]:
    return {
        f"{digit}_{speaker}_{take}.wav": content(recording(digit, speaker, take))
        for digit in range(10)
        for speaker in ("anna", "ben")
        for take in range(13)
    }


@pytest.fixture(params=["folder", "tar", "tar.gz"])
def place(request: pytest.FixtureRequest, tmp_path: Path, recordings: dict[str, bytes]) -> Path:
    if request.param == "folder":
        for name, data in recordings.items():
            (tmp_path / name).write_bytes(data)
        (tmp_path / "README.md").write_text("not a recording")
        return tmp_path
    path = tmp_path / f"all.{request.param}"
    packed(path, {f"recordings/{name}": data for name, data in recordings.items()} | {"recordings/README": b"text"})
    return path


def packed(path: Path, files: dict[str, bytes]) -> None:
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def levels(example: Example) -> list[int]:
    """What was joined, by its level."""
    numbers = np.round(example.input.samples * 32768).astype(int)
    runs = np.flatnonzero(np.diff(numbers)) + 1
    return [int(run[0]) for run in np.split(numbers, runs) if len(run) == 80]


def test_recordings_are_read_by_their_names_and_split_by_their_takes(place: Path) -> None:
    seen = {}
    for part in PARTS:
        examples = Spoken().read([place], part)
        for sound, word in examples:
            assert isinstance(sound, Sound) and sound.rate == 8000
            digit, speaker, take = _parsed(sound.samples)
            assert DIGITS[digit] == word
            seen[digit, speaker, take] = part
        assert [e.target for e in examples] == sorted((e.target for e in examples), key=DIGITS.index)
    assert len(seen) == 260
    for (_, _, take), part in seen.items():
        assert part == ("test" if take < 5 else "valid" if take < 10 else "train")


def _parsed(samples: np.ndarray) -> tuple[int, int, int]:
    level = round(float(samples[0]) * 32768)
    return level // 1000, level % 1000 // 100, level % 100


def test_an_unseen_speaker_is_all_of_the_test_and_nowhere_else(place: Path) -> None:
    spoken_by = {part: [_parsed(e.input.samples) for e in Spoken(unseen="ben").read([place], part)] for part in PARTS}
    assert {speaker for _, speaker, _ in spoken_by["test"]} == {1} and len(spoken_by["test"]) == 130
    assert {speaker for part in PARTS[:2] for _, speaker, _ in spoken_by[part]} == {0}
    assert {take for _, _, take in spoken_by["train"]} == {10, 11, 12}
    with pytest.raises(UserError, match="no speaker 'bn'; did you mean 'ben'"):
        Spoken(unseen="bn").read([place], "train")


def test_joined_strings_are_of_one_speaker_and_of_their_own_part(tmp_path: Path, recordings: dict[str, bytes]) -> None:
    path = tmp_path / "all.tar.gz"
    packed(path, {name: data for name, data in recordings.items() if not name.startswith("0_anna_0")})
    form = Spoken(join=4, count=60, seed=3)
    lengths = set()
    for part, takes in zip(PARTS, ({10, 11, 12}, {5, 6, 7, 8, 9}, {0, 1, 2, 3, 4})):
        examples = form.read([path], part)
        assert len(examples) == 60
        for example in examples:
            said = [(n // 1000, n % 1000 // 100, n % 100) for n in levels(example)]
            words = example.target.split()
            # Level 0 is silence itself: "zero" by anna, take 0, was left out above.
            assert [DIGITS[digit] for digit, _, _ in said] == words
            assert len({speaker for _, speaker, _ in said}) == 1
            assert {take for _, _, take in said} <= takes
            rests = len(example.input.samples) - 80 * len(words)
            assert 0.02 * 8000 * (len(words) + 1) - len(words) - 1 <= rests <= 0.25 * 8000 * (len(words) + 1)
            lengths.add(len(words))
        again = form.read([path], part)
        assert all(np.array_equal(a.input.samples, b.input.samples) for a, b in zip(examples, again))
    assert lengths == {1, 2, 3, 4}
    other = Spoken(join=4, count=60, seed=4).read([path], "train")
    assert [e.target for e in other] != [e.target for e in form.read([path], "train")]


def test_what_holds_no_recordings_is_refused(tmp_path: Path, recordings: dict[str, bytes]) -> None:
    with pytest.raises(UserError, match="no recordings called"):
        Spoken().read([tmp_path], "train")
    (tmp_path / "a.tar").write_bytes(b"this is no archive" * 100)
    with pytest.raises(UserError, match="is no tar archive"):
        Spoken().read([tmp_path / "a.tar"], "train")
    packed(tmp_path / "b.tar.gz", recordings)
    whole = (tmp_path / "b.tar.gz").read_bytes()
    (tmp_path / "b.tar.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="is no tar archive"):
        Spoken().read([tmp_path / "b.tar.gz"], "train")
    packed(tmp_path / "c.tar", {"1_anna_11.wav": b"no sound"})
    with pytest.raises(UserError, match="1_anna_11.wav: not a sound file"):
        Spoken().read([tmp_path / "c.tar"], "train")
    packed(tmp_path / "d.tar", {"1_anna_11.wav": recordings["1_anna_11.wav"]})
    with pytest.raises(UserError, match="no recordings for the part 'test'"):
        Spoken().read([tmp_path / "d.tar"], "test")
    for wrong in ({"join": 0}, {"join": 1000}, {"count": 0}, {"seed": -1}):
        with pytest.raises(UserError, match="data.format"):
            Spoken(**wrong)


def test_an_archive_writes_nothing_and_keeps_to_its_limits(
    tmp_path: Path, recordings: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    path = folder / "a.tar"
    packed(path, {f"../../{name}": data for name, data in recordings.items() if name.startswith("1")})
    assert len(Spoken().read([path], "train")) == 6
    assert [p.name for p in tmp_path.rglob("*")] == ["inner", "a.tar"]
    monkeypatch.setattr(spoken, "ENTRIES", 10)
    with pytest.raises(UserError, match="holds more than 10 files"):
        Spoken().read([path], "train")
    monkeypatch.setattr(spoken, "ENTRIES", 1000)
    monkeypatch.setattr(spoken, "ALL_RECORDINGS", 2000)
    with pytest.raises(UserError, match="holds more than"):
        Spoken().read([path], "train")
    monkeypatch.setattr(spoken, "ALL_RECORDINGS", 10**9)
    monkeypatch.setattr(spoken, "RECORDING", 100)
    with pytest.raises(UserError, match="1_anna_0.wav: has"):
        Spoken().read([path], "train")


def test_a_link_in_an_archive_leads_nowhere(tmp_path: Path, recordings: dict[str, bytes]) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        member = tarfile.TarInfo("1_anna_12.wav")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/hostname"
        archive.addfile(member)
    with pytest.raises(UserError, match="no recordings called"):
        Spoken().read([path], "train")


# Skeletons


def skeleton_rows(action: int, subject: int, episode: int, joints: np.ndarray) -> list[str]:
    """Rows of a performance (T, 20, 3), with confidences that must not matter."""
    full = np.concatenate([joints, np.full((*joints.shape[:2], 1), 0.5)], axis=2).reshape(len(joints), -1)
    return [
        f"{action}\t{subject}\t{episode}\t{frame}\t" + " ".join(f"{value:g}" for value in row)
        for frame, row in enumerate(full)
    ]


def skeletons(folder: Path, rows: list[str]) -> Path:
    path = folder / "skeletons.tsv.gz"
    path.write_bytes(gzip.compress("\n".join(["action\tsubject\tepisode\tframe\tjoints", *rows, ""]).encode()))
    return path


def body(frames: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(50, 300, (frames, JOINTS, 3)).astype(float)


def test_skeletons_are_seen_from_the_hip_in_units_of_the_trunk(tmp_path: Path) -> None:
    joints = body(4)
    joints[:, NECK, :2] = joints[:, HIP, :2] + [30, -40]  # 50 long in every frame
    (example,) = Skeleton().read([skeletons(tmp_path, skeleton_rows(13, 1, 1, joints))], "train")
    assert example.target == "bend" and example.input.shape == (4, 60) and example.input.dtype == np.float32
    found = example.input.reshape(4, JOINTS, 3)
    for joint in range(JOINTS):
        wanted = joints[:, HIP] - joints[0, HIP] if joint == HIP else joints[:, joint] - joints[:, HIP]
        np.testing.assert_allclose(found[:, joint], wanted / 50, rtol=1e-5, atol=1e-6)


def test_where_somebody_stands_and_how_tall_he_is_does_not_matter(tmp_path: Path) -> None:
    joints = body(5)
    rows = skeleton_rows(1, 1, 1, joints) + skeleton_rows(1, 1, 2, 2 * joints + [100, 7, -300])
    one, other = Skeleton().read([skeletons(tmp_path, rows)], "train")
    np.testing.assert_allclose(one.input, other.input, rtol=1e-4, atol=1e-5)


def test_broken_frames_are_dropped_and_empty_performances_too(tmp_path: Path) -> None:
    joints = body(6)
    whole = Skeleton().read([skeletons(tmp_path, skeleton_rows(2, 1, 1, joints[[0, 1, 3, 5]]))], "train")
    broken = joints.copy()
    broken[2, 4, 1] = 2147480000
    broken[4] = 0
    rows = skeleton_rows(2, 1, 1, broken) + skeleton_rows(13, 1, 2, np.zeros((3, JOINTS, 3)))
    mixed = rows[::-2] + rows[-2::-2]  # their order does not matter
    examples = Skeleton().read([skeletons(tmp_path, mixed)], "train")
    assert len(examples) == 1
    np.testing.assert_array_equal(examples[0].input, whole[0].input)


def test_parts_are_people(tmp_path: Path) -> None:
    rows = [row for subject in range(1, 11) for row in skeleton_rows(subject, subject, 1, body(2, subject))]
    path = skeletons(tmp_path, rows)

    def people(form: Skeleton, part: str) -> list[int]:
        return [ACTIONS.index(example.target) + 1 for example in form.read([path], part)]

    assert [people(Skeleton(), part) for part in PARTS] == [[1, 3, 5, 7], [9], [2, 4, 6, 8, 10]]
    assert people(Skeleton(train=[1, 3, 5, 7, 9]), "train") == [1, 3, 5, 7, 9]
    with pytest.raises(UserError, match="subject 2 is in train and in test"):
        Skeleton(train=[1, 2])


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("1\t1\t1\t0\t1 2 3", "line 2: wants action"),
        ("1\t1\t0\t" + "1 " * 80, "line 2: wants action"),
        ("1\t1\t1\t0\t" + "x " * 80, "line 2: holds something that is no number"),
        ("1\t1\t1\t0\t" + "nan " * 80, "line 2: wants action"),
        ("21\t1\t1\t0\t" + "1 " * 80, "line 2: no action 21; there are 1 to 20"),
    ],
)
def test_rows_that_are_no_skeletons_are_refused(tmp_path: Path, row: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        Skeleton().read([skeletons(tmp_path, [row])], "train")


# UEA

HEADER = (
    "#about\n@problemName Toy\n@timeStamps false\n@missing false\n@dimensions 2\n@classLabel true Walk Run\n@data\n"
)


def test_ts_files_are_read(tmp_path: Path) -> None:
    text = HEADER + "1,2,3:-4,5e-1,6:Run\n0,1:2,3:Walk\n\n"
    (tmp_path / "a.ts").write_text(text)
    (tmp_path / "a.ts.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("a.ts", "a.ts.gz"):
        first, second = Uea().read([tmp_path / name], "train")
        assert first.target == "Run" and first.input.dtype == np.float32
        assert first.input.tolist() == [[1, -4], [2, 0.5], [3, 6]]
        assert second.target == "Walk" and second.input.tolist() == [[0, 2], [1, 3]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no line '@data'"),
        ("1,2:Run\n", "line 1: numbers before '@data'"),
        ("@data\n1:Run\n", "names no classes"),
        (HEADER.replace("@timeStamps false", "@timeStamps true"), "line 3: files with timestamps"),
        (HEADER + "1,2:3,4:Jump\n", "line 8: no class 'Jump'"),
        (HEADER + "1,2:3,?:Run\n", "line 8, channel 2: holds something that is no number"),
        (HEADER + "1,2:3,NaN:Run\n", "line 8, channel 2: a value is missing"),
        (HEADER + "1,2:3:Run\n", "line 8, channel 2: 1 steps, but channel 1 has 2"),
        (HEADER + "1,2:3,4:Run\n1,2:Run\n", "line 9: 1 channels, but the first example has 2"),
        (HEADER + "Run\n", "line 8: a class, but no values"),
    ],
)
def test_ts_files_that_are_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "a.ts").write_text(text)
    with pytest.raises(UserError) as error:
        Uea().read([tmp_path / "a.ts"], "train")
    assert said in str(error.value) and "\n" not in str(error.value)


# Made here


def pure(value: object) -> list:
    return value.tolist() if isinstance(value, np.ndarray) else [value]


@pytest.mark.parametrize("kind", ["made_tones", "made_motion", "made_clips"])
def test_what_is_made_is_the_same_for_a_seed_and_another_for_every_part(kind: str) -> None:
    def made(seed: int, part: str) -> list[tuple[list, list]]:
        form = registry.create("data/format", kind, count=12, seed=seed)
        return [
            (np.asarray(getattr(e.input, "samples", e.input)).tolist(), pure(e.target)) for e in form.read([], part)
        ]

    assert len(made(1, "train")) == 12 and made(1, "train") == made(1, "train")
    different = [made(1, part) for part in PARTS] + [made(2, "train")]
    assert all(a != b for i, a in enumerate(different) for b in different[:i])
    for wrong in ({"count": 0}, {"seed": -1}, {"longest": 0}):
        with pytest.raises(UserError, match="data.format"):
            registry.create("data/format", kind, **wrong)


def test_tones_are_what_they_are_called() -> None:
    """The pitch of each stretch between rests, found by counting how often it goes through zero."""
    for sound, words in MadeTones(count=40, noise=0.0).read([], "train"):
        loud = np.convolve(np.abs(sound.samples), np.ones(40), "same") > 0.5
        edges = np.flatnonzero(np.diff(loud.astype(int)))
        stretches = [sound.samples[a:b] for a, b in zip(edges[::2], edges[1::2])]
        found = []
        for stretch in stretches:
            pitch = np.count_nonzero(np.diff(np.sign(stretch))) / 2 / len(stretch) * sound.rate
            found.append(min(TONES, key=lambda name: abs(np.log(TONES[name] / pitch))))
        assert " ".join(found) == words


def test_motions_are_what_they_are_called() -> None:
    examples = MadeMotion(count=200, noise=0.0).read([], "train")
    assert {e.target for e in examples} == set(MOTIONS)
    for values, name in examples:
        assert values.dtype == np.float32 and 30 <= len(values) <= 60 and values.shape[1] == 3
        channel = values[:, 0] / max(np.abs(values[:, 0]).max(), 1e-9)
        levels = len(np.unique(np.round(channel, 3)))
        jumps = np.abs(np.diff(channel)) > 1.2
        assert name == ("rests" if levels == 1 else "jerks" if levels <= 3 else "climbs" if jumps.any() else "swings")


def test_activities_are_what_they_are_called() -> None:
    """The path of the light's centre, computed from the pixels."""
    examples = MadeClips(count=150, noise=0.0).read([], "train")
    assert {e.target for e in examples} == set(ACTIVITIES)
    for frames, name in examples:
        assert frames.dtype == np.uint8 and frames.shape[1:] == (24, 24, 1) and 12 <= len(frames) <= 20
        x, y = middles(frames)
        if np.ptp(x) < 0.02:
            found = "stands still" if np.ptp(y) < 0.02 else "bounces"
        elif np.ptp(y) > 0.05:
            found = "circles"
        else:
            found = "moves right" if x[-1] > x[0] else "moves left"
        assert found == name


def middles(frames: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    light = frames[..., 0].astype(float) - frames.min()
    places = (np.arange(frames.shape[1]) + 0.5) / frames.shape[1]
    total = light.sum((1, 2))
    return (light.sum(1) * places).sum(1) / total, (light.sum(2) * places).sum(1) / total


def test_a_track_is_where_the_disc_is_also_behind_the_bar() -> None:
    copied, continued, whole = [], [], []
    for frames, track in MadeClips(target="track", count=60, noise=0.0).read([], "train"):
        assert track.dtype == np.float32 and track.shape == (len(frames), 2)
        assert track.min() > 0 and track.max() < 1
        # The bar is as bright as can be in every row of every frame.
        columns = np.flatnonzero((frames[..., 0] > 220).all((0, 1)))
        bar = (columns.mean() + 0.5) / 24
        hidden = np.abs(track[:, 0] - bar) < BAR / 2 - RADIUS - 1 / 24
        assert hidden.any() and not hidden[:2].any()
        rest = np.delete(frames, columns, axis=2)
        assert rest[hidden].max() < 100  # nothing of it is seen
        shown = (rest > 100).any((1, 2, 3))
        for frame in np.flatnonzero(~shown):
            last = np.flatnonzero(shown[:frame])[-1]
            copied.append(np.abs(track[frame] - track[last]).max())
            pace = track[last] - track[last - 1]
            continued.append(np.abs(track[frame] - (track[last] + pace * (frame - last))).max())
        clear = (np.abs(track[:, 0] - bar) > BAR / 2 + RADIUS + 1 / 24) & shown
        if clear.any():
            whole.append(clear.sum())
            inside = frames[clear].copy()
            inside[:, :, columns] = frames.min()
            np.testing.assert_allclose(np.stack(middles(inside), 1), track[clear], atol=0.02)
    assert sum(whole) > 20
    assert np.mean(copied) > 0.1 and np.median(continued) < 0.001
    assert np.mean(copied) > 3 * np.mean(continued)
