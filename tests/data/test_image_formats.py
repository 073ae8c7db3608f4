"""Image data formats: folders and archives as users have them, and synthetic images."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow

from regard.data import archive as archives
from regard.data.format import _pictures
from regard.data.format.captions import Captions
from regard.data.format.idx import Idx
from regard.data.format.image_folder import ImageFolder
from regard.data.format.made_shapes import COLOURS, PLACES, SHAPES, MadeShapes
from regard.errors import UserError


def png(shade: int, side: int = 4, mode: str = "RGB") -> bytes:
    stream = io.BytesIO()
    Pillow.new(mode, (side, side), (shade,) * 3 if mode == "RGB" else shade).save(stream, "PNG")
    return stream.getvalue()


def zipped(path: Path, members: Mapping[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as opened:
        for name, data in members.items():
            opened.writestr(name, data)
    return path


def foldered(path: Path, members: Mapping[str, bytes]) -> Path:
    for name, data in members.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    return path


def line_of(error: pytest.ExceptionInfo[UserError]) -> str:
    assert "\n" not in str(error.value)
    return str(error.value)


# Pictures in folders

SORTED = {
    "dog/b.png": png(3),
    "cat/a.PNG": png(1),
    "dog/a.png": png(2, mode="L"),
    "dog/notes.txt": b"no picture",
    "dog/.DS_Store": b"x",
    "__MACOSX/dog/a.png": b"x",
    "cat/._a.png": b"x",
}


@pytest.mark.parametrize("keep", [zipped, foldered])
def test_a_picture_is_called_by_its_folder(keep: Callable[..., Path], tmp_path: Path) -> None:
    examples = ImageFolder().read([keep(tmp_path / "animals", SORTED)], "train")
    assert [(e.target, int(e.input[0, 0, 0]), e.input.shape) for e in examples] == [
        ("cat", 1, (4, 4, 3)),
        ("dog", 2, (4, 4, 1)),
        ("dog", 3, (4, 4, 3)),
    ]


def test_the_nearest_folder_counts_and_several_files_are_one_set(tmp_path: Path) -> None:
    one = zipped(tmp_path / "one.zip", {"all/train/cat/1.png": png(1)})
    other = foldered(tmp_path / "other", {"dog/2.png": png(2)})
    assert [e.target for e in ImageFolder().read([one, other], "valid")] == ["cat", "dog"]


def test_large_pictures_are_shrunk_unless_told_otherwise(tmp_path: Path) -> None:
    file = zipped(tmp_path / "large.zip", {"cat/1.png": png(9, side=300)})
    assert ImageFolder().read([file], "train")[0].input.shape == (256, 256, 3)
    assert ImageFolder(shrink=20).read([file], "train")[0].input.shape == (20, 20, 3)
    assert ImageFolder(shrink=0).read([file], "train")[0].input.shape == (300, 300, 3)
    with pytest.raises(UserError, match="data.format.shrink: wants a number of pixels"):
        ImageFolder(shrink=-1)


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_zip_is_said_in_a_line(compression: int, tmp_path: Path) -> None:
    members = {f"cat/{i}.png": png(i) for i in range(4)}
    good = zipped(tmp_path / "good.zip", members, compression).read_bytes()
    assert len(ImageFolder().read([tmp_path / "good.zip"], "train")) == 4
    random, refused = np.random.default_rng(0), 0
    path = tmp_path / "bad.zip"
    damaged = [b"", b"P", good[:100], good[:-10]]
    for _ in range(60):
        bad = bytearray(good)
        for place in random.integers(0, len(bad), 4):
            bad[place] = random.integers(0, 256)
        damaged.append(bytes(bad))
    for data in damaged:
        path.write_bytes(data)
        try:
            ImageFolder().read([path], "train")
        except UserError as error:
            refused += 1
            assert str(error).startswith(str(path)) and "\n" not in str(error)
    assert refused > 30


def test_an_encrypted_zip_is_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path / "secret.zip", {"cat/1.png": png(1)}, zipfile.ZIP_STORED)
    data = bytearray(path.read_bytes())
    data[6] |= 1  # the flag, in the member and in the listing
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    with pytest.raises(UserError, match="secret.zip: 'cat/1.png': cannot be read .*password") as error:
        ImageFolder().read([path], "train")
    line_of(error)


@pytest.mark.parametrize(
    "members, line",
    [
        ({"cat/1.png": b"x"}, "'cat/1.png': is no picture that can be read"),
        ({"1.png": png(1)}, "'1.png' lies in no folder; put it into one named as its class"),
        ({"cat/readme.txt": b"x"}, "there are no pictures in it; name them CLASS/name.jpg"),
        ({}, "there are no pictures in it"),
        ({"cat/a\nb.png": b"x"}, r"'cat/a\nb.png'"),
    ],
)
def test_what_is_wrong_in_an_archive_is_said_with_its_name(
    members: dict[str, bytes], line: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError) as error:
        ImageFolder().read([zipped(tmp_path / "pictures.zip", members)], "train")
    assert "pictures.zip: " in line_of(error) and line in line_of(error)


def test_limits_hold_before_anything_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = zipped(tmp_path / "bomb.zip", {"cat/1.png": bytes(30_000_000)})
    assert bomb.stat().st_size < 100_000
    with monkeypatch.context() as patch:
        patch.setattr(zipfile.ZipFile, "open", lambda *_: pytest.fail("it was unpacked"))
        with pytest.raises(UserError, match="'cat/1.png': has 30 MB; 20 MB are the most"):
            ImageFolder().read([bomb], "train")
        patch.setattr(archives, "MOST_BYTES", 25_000_000)
        with pytest.raises(UserError, match="holds more than 250,000 files or 25 MB"):
            ImageFolder().read([bomb], "train")
    many = {f"cat/{i}.png": png(i) for i in range(6)}
    with monkeypatch.context() as patch:
        patch.setattr(archives, "MOST_FILES", 5)
        for keep, name in ((zipped, "many.zip"), (foldered, "many")):
            with pytest.raises(UserError, match="holds more than 5 files"):
                ImageFolder().read([keep(tmp_path / name, many)], "train")
    monkeypatch.setattr(_pictures, "MOST_BYTES", 5 * 4 * 4 * 3)
    with pytest.raises(UserError, match="more pixels than memory holds"):
        ImageFolder().read([tmp_path / "many"], "train")


def test_a_member_that_is_longer_than_listed_is_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path / "liar.zip", {"cat/1.png": bytes(1_000_000)})
    data = bytearray(path.read_bytes())
    listing = data.index(b"PK\x01\x02")
    data[listing + 24 : listing + 28] = struct.pack("<I", 10)
    path.write_bytes(data)
    with pytest.raises(UserError) as error:
        ImageFolder().read([path], "train")
    assert "liar.zip: 'cat/1.png'" in line_of(error)


def test_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zipped(tmp_path / "evil.zip", {"../../out/1.png": png(1), "/etc/2.png": png(2)})
    monkeypatch.chdir(tmp_path)
    assert len(ImageFolder().read([path], "train")) == 1  # `..` begins with a dot
    assert [file.name for file in tmp_path.rglob("*")] == ["evil.zip"]


# IDX


def idx(*shape: int, values: bytes | None = None, magic: int | None = None) -> bytes:
    header = struct.pack(f">I{len(shape)}I", 0x0800 + len(shape) if magic is None else magic, *shape)
    return header + (bytes(i % 256 for i in range(int(np.prod(shape)))) if values is None else values)


@pytest.fixture
def idx_files(tmp_path: Path) -> Callable[..., list[Path]]:
    def write(images: bytes, labels: bytes, packed: bool = True) -> list[Path]:
        paths = [tmp_path / f"{name}{'.gz' if packed else ''}" for name in ("images-idx3-ubyte", "labels-idx1-ubyte")]
        for path, data in zip(paths, (images, labels)):
            path.write_bytes(gzip.compress(data) if packed else data)
        return paths

    return write


@pytest.mark.parametrize("packed", [True, False])
def test_idx_files_are_images_and_names(packed: bool, idx_files: Callable[..., list[Path]]) -> None:
    files = idx_files(idx(3, 2, 4), idx(3, values=bytes([2, 0, 2])), packed)
    for order in (files, files[::-1]):
        examples = Idx(names=["shirt", "shoe", "bag"]).read(order, "train")
        assert [e.target for e in examples] == ["bag", "shirt", "bag"]
        assert [e.input.shape for e in examples] == [(2, 4, 1)] * 3
        assert examples[1].input[..., 0].tolist() == [[8, 9, 10, 11], [12, 13, 14, 15]]
    assert [e.target for e in Idx().read(files, "test")] == ["2", "0", "2"]


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(
    "images, labels, line",
    [
        (idx(3, 2, 2), idx(4), "do not belong together: 3 images, 4 labels"),
        (idx(3, 2, 2), idx(3, values=bytes([0, 1, 9])), "data.format.names: 2 names, but a label 9"),
        (idx(3, 2, 2), idx(3, 2, 2), "idx wants two files a part, one with images and one with their labels"),
        (idx(3, 2, 2)[:-1], idx(3), "promises"),
        (idx(3, 2, 2) + b"x", idx(3), "holds more or fewer"),
        (idx(60_000, 28, 28, values=bytes(100)), idx(3), "promises what it cannot hold"),
        (idx(2**32 - 1, 2**32 - 1, 2**32 - 1, values=b""), idx(3), "promises what it cannot hold"),
        (idx(0, 28, 28), idx(0), "promises what it cannot hold"),
        (idx(3, 2, 2)[:9], idx(3), "promises what it cannot hold"),
        (idx(3, 2, 2, magic=0x0D03), idx(3), "is no IDX file of images or labels"),
        (b"", idx(3), "is no IDX file"),
        (b"\0", idx(3), "is no IDX file"),
        (b"hello world", idx(3), "is no IDX file"),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else value[:20],
)
def test_what_is_wrong_with_idx_files(
    images: bytes, labels: bytes, line: str, packed: bool, idx_files: Callable[..., list[Path]]
) -> None:
    with pytest.raises(UserError) as error:
        Idx(names=["a", "b"]).read(idx_files(images, labels, packed), "train")
    assert line in line_of(error)


def test_idx_files_that_are_not_even_files(tmp_path: Path, idx_files: Callable[..., list[Path]]) -> None:
    files = idx_files(idx(3, 2, 2), idx(3, values=bytes(3)))
    for change, line in [
        (lambda data: data[:-5], "cannot be read"),
        (lambda data: b"x" + data, "cannot be read"),
        (lambda data: b"", "is no IDX file"),
    ]:
        good = files[0].read_bytes()
        files[0].write_bytes(change(good))
        with pytest.raises(UserError) as error:
            Idx().read(files, "train")
        assert line in line_of(error) and str(files[0]) in line_of(error)
        files[0].write_bytes(good)
    for wrong in ([], files[:1], [*files, files[0]], [files[0], tmp_path / "none.gz"], [files[0], tmp_path]):
        with pytest.raises(UserError) as error:
            Idx().read(wrong, "train")
        line_of(error)
    with pytest.raises(UserError, match="data.format.names"):
        Idx(names=["a", "a"])


# Captions

SAID = "b.jpg\tA dog .\nb.jpg\tA brown dog runs .\na.jpg\t A cat .\nb.jpg\t\n"


def captioned(tmp_path: Path, said: str = SAID, pictures: Mapping[str, bytes] | None = None) -> list[Path]:
    table = tmp_path / "train.captions.tsv.gz"
    table.write_bytes(gzip.compress(said.encode()))
    pictures = {"a.jpg": png(1), "b.jpg": png(2), "c.jpg": b"never looked at"} if pictures is None else pictures
    return [zipped(tmp_path / "train.zip", pictures), table]


def test_an_example_for_every_caption_or_one_with_all(tmp_path: Path) -> None:
    files = captioned(tmp_path)
    train = Captions().read(files, "train")
    assert [(int(e.input[0, 0, 0]), e.target) for e in train] == [
        (2, "A dog ."),
        (2, "A brown dog runs ."),
        (1, "A cat ."),
    ]
    assert train[0].input is train[1].input  # held once
    for part in ("valid", "test"):
        found = Captions().read(files[::-1], part)
        assert [(int(e.input[0, 0, 0]), e.target) for e in found] == [
            (2, ["A dog .", "A brown dog runs ."]),
            (1, ["A cat ."]),
        ]


def test_pictures_may_lie_deeper_and_in_a_folder(tmp_path: Path) -> None:
    files = captioned(tmp_path, "a.jpg\tA cat .\n")
    folder = foldered(tmp_path / "photos", {"deep/a.jpg": png(7)})
    assert int(Captions().read([folder, files[1]], "train")[0].input[0, 0, 0]) == 7


@pytest.mark.parametrize(
    "said, pictures, line",
    [
        ("z.jpg\tA dog .\n", None, "speaks of 'z.jpg', which is not in"),
        ("a.jpg\n", None, "line 1: has 1 column(s), but column 2 is wanted"),
        ("", None, "the corpus is empty"),
        (SAID, {}, "speaks of 'b.jpg'"),
        (SAID, {"b.jpg": b"x"}, "train.zip: 'b.jpg': is no picture"),
    ],
)
def test_what_is_wrong_with_captions(said: str, pictures: dict[str, bytes] | None, line: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        Captions().read(captioned(tmp_path, said, pictures), "train")
    assert line in line_of(error)


def test_captions_want_one_file_of_each(tmp_path: Path) -> None:
    files = captioned(tmp_path)
    for wrong in ([], files[:1], files[1:], [*files, files[0]]):
        with pytest.raises(UserError, match="captions wants two files a part"):
            Captions().read(wrong, "train")


# Shapes


@pytest.mark.parametrize("colour", [False, True])
def test_shapes_are_made_as_asked(colour: bool) -> None:
    examples = MadeShapes(count=300, size=20, colour=colour).read([], "train")
    assert len(examples) == 300 and {e.target for e in examples} == set(SHAPES)
    assert {(e.input.shape, e.input.dtype) for e in examples} == {((20, 20, 3 if colour else 1), np.dtype(np.uint8))}


def test_parts_differ_and_seeds_decide() -> None:
    def read(part: str, **options: Any) -> bytes:
        examples = MadeShapes(count=20, **options).read([], part)
        return b"".join(e.input.tobytes() for e in examples)

    drawn = [read(part, seed=seed) for part in ("train", "valid", "test") for seed in (1, 2)]
    assert len(set(drawn)) == 6 and read("train", seed=1) == drawn[0]


def drawn_at(pixels: np.ndarray) -> np.ndarray:
    """Where the shape is: brighter than noise in some channel."""
    return pixels.max(-1) > 130


@pytest.mark.parametrize("size", [12, 16, 40])
def test_every_shape_is_whole_within_the_picture_and_its_name_is_its_form(size: int) -> None:
    extents = {shape: [] for shape in SHAPES}
    for example in MadeShapes(count=400, size=size).read([], "train"):
        where = drawn_at(example.input)
        rows, columns = where.any(1).nonzero()[0], where.any(0).nonzero()[0]
        cut = where[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        assert len(rows) >= 2 and len(columns) >= 2 and len(rows) <= 0.6 * size + 1
        extents[example.target].append(cut.mean())
    filled = {shape: np.mean(parts) for shape, parts in extents.items()}
    assert filled["square"] > 0.99 > filled["circle"] > filled["triangle"]
    if size > 16:
        assert filled["circle"] > 0.7 and 0.4 < filled["triangle"] < 0.65 and 0.45 < filled["cross"] < 0.65


@pytest.mark.parametrize("part", ["train", "valid"])
def test_captions_are_true(part: str) -> None:
    ways = set()
    for example in MadeShapes(count=300, size=32, colour=True, captions=True).read([], part):
        said = example.target if part == "train" else example.target[0]
        if part == "train":
            ways.add(said.startswith("there is "))
        else:
            assert example.target == [said, f"there is {said}"] and not said.startswith("there is")
        colour, shape, place = said.removeprefix("there is ").removeprefix("a ").split(" ", 2)
        where = drawn_at(example.input)
        mean = example.input[where].mean(0)
        assert colour == min(COLOURS, key=lambda name: abs(mean - COLOURS[name]).sum())
        places = np.argwhere(where)
        y, x = (places.min(0) + places.max(0) + 1) / 32 - 1  # the middle of its frame, from -1 to 1
        assert place == min(PLACES, key=lambda name: abs(x - PLACES[name][0] / 2) + abs(y - PLACES[name][1] / 2))
        assert shape in SHAPES
    assert ways == ({True, False} if part == "train" else set())


def test_without_colour_none_is_spoken_of() -> None:
    said = {e.target for e in MadeShapes(count=600, captions=True).read([], "train")}
    assert not any(colour in sentence for colour in COLOURS for sentence in said)
    assert said == {f"{way}a {shape} {place}" for way in ("", "there is ") for shape in SHAPES for place in PLACES}


@pytest.mark.parametrize(
    "options, key",
    [({"size": 4}, "size"), ({"size": 10**6}, "size"), ({"count": 0}, "count"), ({"count": 10**9}, "count"), ({"seed": -1}, "seed")],
)  # fmt: skip
def test_shapes_that_cannot_be_made(options: dict[str, Any], key: str) -> None:
    with pytest.raises(UserError, match=f"data.format.{key}: ") as error:
        MadeShapes(**options)
    line_of(error)
