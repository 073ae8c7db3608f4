"""Clips: each frame is read like an image; GIF files of all kinds."""

from __future__ import annotations

import io
import struct
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow

from regard.data.input import clip
from regard.data.input.clip import Clip
from regard.data.input.image import Image
from regard.errors import UserError


def random_clips(*lengths: int, size: int = 8, channels: int = 1) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.integers(0, 256, (n, size, size, channels), dtype=np.uint8) for n in lengths]


def gif(folder: Path, frames: list[np.ndarray], name: str = "a.gif") -> Path:
    first, *others = [Pillow.fromarray(frame.squeeze()) for frame in frames]
    first.save(folder / name, save_all=True, append_images=others, duration=40, loop=0)
    return folder / name


def plain(size: int = 8, channels: int = 1) -> Clip:
    return Clip(Image(size, [0.0] * channels, [1.0] * channels))


def test_a_clip_is_its_frames_as_images() -> None:
    raws = random_clips(3, 7)
    made = Clip.fit(raws, seed=1)
    image = Image.fit([frame for raw in raws for frame in raw], seed=1)
    assert made.sizes() == {"channels": 1, "size": 8}
    for raw in raws:
        encoded = made.encode(raw)
        assert encoded.shape == (len(raw), 1, 8, 8) and encoded.dtype == np.float32
        np.testing.assert_array_equal(encoded, np.stack([image.encode(frame) for frame in raw]))
    again = Clip.from_files(made.files())
    np.testing.assert_array_equal(again.encode(raws[0]), made.encode(raws[0]))
    assert Clip.fit(raws, seed=1, size=4).encode(raws[0]).shape == (3, 1, 4, 4)


def test_what_is_no_clip_is_refused() -> None:
    with pytest.raises(UserError, match="clip 2 is no array of frames"):
        Clip.fit([random_clips(2)[0], np.zeros((4, 4), np.uint8)], seed=1)
    with pytest.raises(UserError, match="no key 'sise'; did you mean 'size'"):
        Clip.fit(random_clips(2), seed=1, sise=4)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_gif_comes_back_frame_by_frame(tmp_path: Path, channels: int) -> None:
    frames = [np.zeros((12, 12, channels), np.uint8) for _ in range(5)]
    for number, frame in enumerate(frames):
        frame[2 * number : 2 * number + 2, 3:9] = 255 if channels == 1 else (255, 0, 0)
    notes: list[str] = []
    read = plain(12, channels).read(str(gif(tmp_path, frames)), notes.append)
    assert read.dtype == np.uint8 and len(read) == 5 and not notes
    encoded = plain(12, channels).encode(read)
    assert encoded.shape == (5, channels, 12, 12)
    np.testing.assert_allclose(encoded, np.stack(frames).transpose(0, 3, 1, 2) / 255, atol=0.02)


def test_a_large_gif_is_shrunk_and_an_oblong_one_is_noted(tmp_path: Path) -> None:
    frames = [np.full((40, 60, 1), 50 * number, np.uint8) for number in range(3)]
    notes: list[str] = []
    path = gif(tmp_path, frames)
    read = plain(8).read(str(path), notes.append)
    assert read.shape[1:3] == (8, 12)
    assert notes == [f"{path}: is 60 x 40 pixels; only the square in the middle is used"]
    encoded = plain(8).encode(read)
    np.testing.assert_allclose(encoded.mean((1, 2, 3)) * 255, [0, 50, 100], atol=2)


def test_one_frame_is_a_clip_too(tmp_path: Path) -> None:
    assert plain().read(str(gif(tmp_path, [np.zeros((8, 8, 1), np.uint8)]))).shape[0] == 1


def refused(path: Path) -> str:
    with pytest.raises(UserError) as error:
        plain().read(str(path))
    assert "\n" not in str(error.value) and str(path) in str(error.value)
    return str(error.value)


def test_limits_hold_before_anything_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = gif(tmp_path, [np.full((20, 20, 1), 20 * number, np.uint8) for number in range(6)])

    def decoded(*_: object) -> None:
        raise AssertionError("decoded")

    monkeypatch.setattr(clip, "pixels_of", decoded)
    monkeypatch.setattr(clip, "ALL_PIXELS", 2399)
    assert "million pixels in all" in refused(path)
    monkeypatch.setattr(clip, "FRAMES", 5)
    assert "has 6 frames; 5 are the most" in refused(path)
    monkeypatch.setattr(clip, "PIXELS", 399)
    monkeypatch.setattr(clip, "FRAMES", 500)
    assert "million pixels a frame" in refused(path)
    monkeypatch.setattr(clip, "BYTES", 100)
    assert "MB are the most" in refused(path)


def hand_made(width: int, height: int, frames: int, between: bytes = b"", after: bytes = b"") -> bytes:
    """A GIF of a large canvas and frames of one pixel: twenty bytes each, whatever the canvas takes in memory."""
    frame = b"," + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\x02\x02\x44\x01\x00" + between
    begin = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + b"\0\0\0\xff\xff\xff"
    return begin + frame * frames + after + b";"


@pytest.mark.parametrize(
    ("width", "height", "frames"), [(65535, 60, 50), (60, 65535, 50), (2000, 2000, 51), (1, 1, 501)]
)
def test_a_kilobyte_does_not_become_gigabytes(
    width: int, height: int, frames: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = hand_made(width, height, frames)
    assert len(content) < 8200
    monkeypatch.setattr(clip, "pixels_of", lambda *_: pytest.fail("decoded"))
    with pytest.raises(UserError, match="are the most"):
        clip.decode_gif(content, "a.gif", 1024)


def test_frames_are_counted_as_pillow_does(tmp_path: Path) -> None:
    comment, odd = b"!\xfe\x03abc\x01d\x00", b"\x00\x01zzz"
    made = [hand_made(4, 4, frames, *more) for frames in (1, 2, 7) for more in [(), (comment,), (odd,), (odd, comment)]]
    made += [gif(tmp_path, list(random_clips(4, size=16)[0])).read_bytes()]
    for content in made:
        with Pillow.open(io.BytesIO(content)) as opened:
            assert clip._count_frames(content) == opened.n_frames


def test_very_many_frames_are_refused_quickly() -> None:
    began = time.process_time()
    with pytest.raises(UserError, match="frames; 500 are the most"):
        clip.decode_gif(hand_made(9, 9, 100_000), "a.gif", 8)
    assert time.process_time() - began < 10


def test_what_is_no_gif_is_refused(tmp_path: Path) -> None:
    Pillow.new("L", (4, 4)).save(tmp_path / "a.png")
    assert "is no GIF" in refused(tmp_path / "a.png")
    (tmp_path / "empty.gif").write_bytes(b"")
    assert "is no GIF" in refused(tmp_path / "empty.gif")
    assert "does not exist" in refused(tmp_path / "missing.gif")


def test_a_cut_off_gif_gives_what_is_there_or_is_refused(tmp_path: Path) -> None:
    path = gif(tmp_path, list(random_clips(4, size=16)[0]))
    content = path.read_bytes()
    for length in range(0, len(content), len(content) // 50):
        path.write_bytes(content[:length])
        try:
            assert plain().read(str(path)).ndim == 4
        except UserError as error:
            assert "\n" not in str(error)
