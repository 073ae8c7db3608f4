"""Images as arrays: sizes, channels, mean and standard deviation, and files that are not images."""

from __future__ import annotations

import io
import json
import os
import resource
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow

from regard.data import picture
from regard.data.input.image import Image
from regard.errors import UserError
from tests.training.toys import run_child


def random_images(count: int, height: int, width: int, channels: int, seed: int = 0) -> list[np.ndarray]:
    return list(np.random.default_rng(seed).integers(0, 256, (count, height, width, channels), dtype=np.uint8))


def encoded(image: Pillow.Image, form: str = "PNG", **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


def decoded(image: Pillow.Image, form: str = "PNG", **options: Any) -> np.ndarray:
    return picture.decode_picture(encoded(image, form, **options), "here")


def plain(size: int = 4, channels: int = 1) -> Image:
    """One that only divides by 255."""
    return Image(size, [0.0] * channels, [1.0] * channels)


# Encoding


@pytest.mark.parametrize("channels", [1, 3])
def test_the_training_images_have_mean_0_and_spread_1(channels: int) -> None:
    raws = [raw // (1 + np.arange(channels, dtype=np.uint8)) for raw in random_images(50, 8, 8, channels)]
    made = Image.fit(raws, seed=1)
    assert made.sizes() == {"channels": channels, "size": 8}
    together = np.stack([made.encode(raw) for raw in raws])
    assert together.dtype == np.float32 and together.shape == (50, channels, 8, 8)
    np.testing.assert_allclose(together.mean((0, 2, 3), dtype=np.float64), 0, atol=1e-6)
    np.testing.assert_allclose(together.std((0, 2, 3), dtype=np.float64), 1, atol=1e-6)
    np.testing.assert_allclose(made.mean, np.stack(raws).mean((0, 1, 2)) / 255)
    np.testing.assert_allclose(made.spread, np.stack(raws).std((0, 1, 2)) / 255)


def test_each_value_is_that_of_the_formula_channels_first() -> None:
    raw = np.array([[[0, 51, 255], [255, 102, 0]], [[51, 0, 51], [102, 255, 204]]], dtype=np.uint8)
    made = Image(2, [0.5, 0.2, 0.0], [0.5, 0.1, 2.0])
    expected = [[[-1, 1], [-0.6, -0.2]], [[0, 2], [-2, 8]], [[0.5, 0], [0.1, 0.4]]]
    np.testing.assert_allclose(made.encode(raw), expected, atol=1e-6)


def test_the_order_of_the_training_images_changes_nothing() -> None:
    raws = random_images(3000, 5, 5, 3)  # more than are counted at once
    assert Image.fit(raws, seed=1).files() == Image.fit(raws[::-1], seed=2).files()


def test_the_square_in_the_middle_is_taken() -> None:
    raw = np.zeros((4, 9, 1), np.uint8)
    raw[:, 2:6] = 255  # of 9 columns, 2 before and 3 behind
    assert (plain().encode(raw) == 1).all()
    assert (plain().encode(raw.transpose(1, 0, 2)) == 1).all()
    raw[:, 2] = 0
    assert (plain().encode(raw)[0, :, 0] == 0).all() and (plain().encode(raw)[0, :, 1:] == 1).all()


def test_other_sizes_are_resized() -> None:
    half = np.zeros((64, 64, 3), np.uint8)
    half[:, 32:] = 255
    small = plain(8, 3).encode(half)
    assert small.shape == (3, 8, 8) and (small[:, :, :3] < 0.05).all() and (small[:, :, 5:] > 0.95).all()
    large = plain(32, 3).encode(half[::16, ::16])
    assert large.shape == (3, 32, 32) and (large[:, :, :10] < 0.1).all() and (large[:, :, 22:] > 0.9).all()


def test_a_shrunk_image_is_an_average_not_a_sample() -> None:
    checks = (np.indices((64, 64)).sum(0) % 2 * 255).astype(np.uint8)[..., None]
    assert abs(plain(8).encode(checks) - 0.5).max() < 0.02


def test_grey_becomes_colour_and_colour_grey() -> None:
    grey = random_images(1, 4, 4, 1)[0]
    as_colour = plain(4, 3).encode(grey)
    assert (as_colour == as_colour[:1]).all() and (as_colour[0] == plain().encode(grey)[0]).all()
    colour = np.zeros((4, 4, 3), np.uint8)
    colour[..., 1] = 255  # green is the brightest of the three
    np.testing.assert_allclose(plain().encode(colour), 0.587, atol=0.003)
    both = [grey, colour]
    assert Image.fit(both, seed=1).sizes() == {"channels": 3, "size": 4}
    assert Image.fit(both, seed=1, channels=1).sizes() == {"channels": 1, "size": 4}


def test_sizes_are_found_or_stated() -> None:
    images = [*random_images(2, 9, 7, 1), *random_images(2, 7, 12, 1)]
    assert Image.fit(images, seed=1).sizes() == {"channels": 1, "size": 7}
    assert Image.fit(images, seed=1, size=5, channels=3).sizes() == {"channels": 3, "size": 5}
    shrunk = [Image.fit(images, seed=1, size=5).encode(image) for image in images]
    assert abs(np.stack(shrunk).mean()) < 1e-6  # the numbers are those of what is encoded, not of what was read


def test_a_channel_that_never_changes_is_finite() -> None:
    raws = [np.full((4, 4, 3), 7, np.uint8)] * 3
    assert (Image.fit(raws, seed=1).encode(raws[0]) == 0).all()


def test_what_is_saved_comes_back_exactly() -> None:
    made = Image.fit(random_images(7, 6, 6, 3), seed=1)
    files = made.files()
    assert all(name.startswith("input.") for name in files)
    again = Image.from_files({**files, "other.json": b"{}"})
    assert (again.size, again.mean, again.spread) == (made.size, made.mean, made.spread)
    raw = random_images(1, 6, 6, 3, seed=5)[0]
    assert np.array_equal(again.encode(raw), made.encode(raw)) and again.files() == files


@pytest.mark.parametrize(
    "change",
    [
        {"size": 0}, {"size": 10**9}, {"size": 2.0}, {"size": True}, {"size": None}, {"mean": []}, {"mean": [0.5, 0.5]},
        {"mean": [float("nan")]}, {"mean": ["0.5"]}, {"spread": [0.0]}, {"spread": [-1.0]}, {"spread": [float("inf")]},
        {"mean": 1.0}, {"spread": "1"}, {"mean": [0.5] * 2, "spread": [1.0] * 2}, {"mean": [[0.5]]},
    ],
)  # fmt: skip
def test_a_damaged_description_is_refused(change: dict[str, Any]) -> None:
    good = {"kind": "image", "size": 4, "mean": [0.5], "spread": [1.0]}
    Image.from_files({"input.json": json.dumps(good).encode()})
    for text in (json.dumps({**good, **change}), json.dumps([1]), "{", "[" * 100_000, "\xff", ""):
        with pytest.raises(UserError, match="input.json: does not describe images"):
            Image.from_files({"input.json": text.encode("latin-1")})
    with pytest.raises(UserError):
        Image.from_files({})


@pytest.mark.parametrize(
    "raws, options, line",
    [
        ([], {}, "there are no images"),
        ([*random_images(1, 8, 8, 1), *random_images(1, 12, 12, 1)], {}, "input.size: the images measure 8 to 12 pixels; state one size"),
        (random_images(1, 2000, 2000, 1), {}, "input.size: the images measure 2000 pixels; state one size"),
        (random_images(1, 8, 8, 1), {"size": -1}, "input.size: wants"),
        (random_images(1, 8, 8, 1), {"size": 5000}, "input.size: wants"),
        (random_images(1, 8, 8, 1), {"channels": 2}, "input.channels: wants"),
        (random_images(1, 8, 8, 2), {}, "an image must be an array of uint8 (height, width, 1 or 3), not uint8 (8, 8, 2)"),
        ([np.zeros((0, 8, 1), np.uint8)], {}, "not uint8 (0, 8, 1)"),
        ([np.zeros((8, 8, 1), np.float32)], {}, "not float32 (8, 8, 1)"),
        (["cat.png"], {}, "not str"),
    ],
)  # fmt: skip
def test_what_cannot_be_learnt_from_is_said_in_a_line(raws: list[Any], options: dict[str, Any], line: str) -> None:
    with pytest.raises(UserError) as error:
        Image.fit(raws, seed=1, **options)
    assert line in str(error.value) and "\n" not in str(error.value)


def test_what_is_no_image_is_not_encoded() -> None:
    with pytest.raises(UserError, match="not float32"):
        plain().encode(np.zeros((4, 4, 1), np.float32))


# Reading


NOT_JPEG = {("JPEG", "P"), ("JPEG", "RGBA")}


def test_pixels_are_those_of_the_file(tmp_path: Path) -> None:
    for channels in (1, 3):
        pixels = random_images(1, 5, 7, channels)[0]
        path = tmp_path / f"{channels}.png"
        path.write_bytes(encoded(Pillow.fromarray(pixels.squeeze())))
        said: list[str] = []
        assert np.array_equal(plain().read(str(path), said.append), pixels)
        assert said == [f"{path}: is 7 x 5 pixels; only the square in the middle is used"]


@pytest.mark.parametrize(
    "form, mode",
    [(form, mode) for form in picture.FORMATS for mode in ("1", "L", "P", "RGB", "RGBA") if (form, mode) not in NOT_JPEG],
)  # fmt: skip
def test_every_format_is_read(form: str, mode: str) -> None:
    image = Pillow.new("RGB", (30, 20), (0, 0, 0))
    image.paste((255, 255, 255), (15, 0, 30, 20))
    pixels = decoded(image.convert(mode), form)
    assert pixels.shape in [(20, 30, 1), (20, 30, 3)] and pixels.dtype == np.uint8
    assert (pixels[:, :14] < 10).all() and (pixels[:, 16:] > 245).all()


def test_other_modes_keep_their_brightness() -> None:
    deep = Pillow.fromarray(np.array([[0, 255, 256, 32768, 65535]], np.uint16))
    assert decoded(deep).ravel().tolist() == [0, 0, 1, 128, 255]
    cmyk = decoded(Pillow.new("RGB", (8, 8), (200, 30, 30)).convert("CMYK"), "JPEG", quality=95)
    assert cmyk.shape == (8, 8, 3) and abs(cmyk.astype(int) - [200, 30, 30]).max() < 12


def test_what_is_transparent_is_white() -> None:
    image = Pillow.new("RGBA", (3, 1), (0, 0, 0, 0))
    image.putpixel((1, 0), (10, 20, 30, 255))
    image.putpixel((2, 0), (0, 0, 0, 128))
    assert decoded(image)[0].tolist() == [[255, 255, 255], [10, 20, 30], [127, 127, 127]]
    assert decoded(Pillow.new("LA", (2, 1), (0, 0)))[0].tolist() == [[255], [255]]
    keyed = Pillow.new("RGB", (2, 1), (1, 2, 3))
    keyed.putpixel((1, 0), (9, 9, 9))
    assert decoded(keyed, transparency=(1, 2, 3))[0].tolist() == [[255, 255, 255], [9, 9, 9]]
    palette = Pillow.new("P", (2, 1), 0)
    palette.putpalette([0, 0, 0, 50, 60, 70])
    palette.putpixel((1, 0), 1)
    assert decoded(palette, "GIF", transparency=0)[0].tolist() == [[255, 255, 255], [50, 60, 70]]


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "LA", "P", "1", "I;16"])
def test_pixels_do_not_depend_on_the_bands_they_are_converted_in(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    noise = Pillow.fromarray(random_images(1, 33, 20, 3)[0])
    image = noise.convert("I").convert(mode) if mode == "I;16" else noise.convert(mode)
    if mode in ("RGBA", "LA"):
        image.putalpha(Pillow.fromarray(random_images(1, 33, 20, 1, seed=1)[0][..., 0]))
    content = encoded(image)
    whole = [picture.decode_picture(content, "here", shortest) for shortest in (0, 7)]
    monkeypatch.setattr(picture, "_BAND", 64)
    for shortest, pixels in zip((0, 7), whole):
        assert np.array_equal(picture.decode_picture(content, "here", shortest), pixels)


def measure_large_picture(content: bytes, size: int) -> None:
    """In a process of its own, with its own peak memory."""
    decoded(Pillow.new("RGBA", (9, 9)))
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        assert len(picture.decode_picture(content, "here")) == size
    except UserError as error:
        assert "million pixels" in str(error)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held
    raise SystemExit(0 if grown < 260_000 else 1)


@pytest.mark.parametrize(("mode", "form"), [("P", "GIF"), ("RGBA", "PNG"), ("RGBA", "WEBP")])
def test_a_few_kilobytes_do_not_become_half_a_gigabyte(mode: str, form: str) -> None:
    options: dict[str, Any] = {"transparency": 0} if mode == "P" else {"lossless": True} if form == "WEBP" else {}
    content = encoded(Pillow.new(mode, (5000, 5000)), form, **options)
    assert len(content) < 100_000 and run_child(measure_large_picture, content, 5000) == 0


@pytest.mark.timeout(20)
def test_what_is_no_regular_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.png")
    (tmp_path / "zero.png").symlink_to("/dev/zero")
    for name in ("fifo.png", "zero.png"):
        with pytest.raises(UserError, match="is a pipe or a device, not a regular file"):
            plain().read(str(tmp_path / name))


@pytest.mark.parametrize("orientation", range(10))
def test_photographs_are_turned_upright(orientation: int) -> None:
    """What EXIF 1 to 8 say of the pixels [[1, 2], [3, 4]]; other numbers say nothing."""
    upright = {
        2: [[2, 1], [4, 3]],
        3: [[4, 3], [2, 1]],
        4: [[3, 4], [1, 2]],
        5: [[1, 3], [2, 4]],
        6: [[3, 1], [4, 2]],
        7: [[4, 2], [3, 1]],
        8: [[2, 4], [1, 3]],
    }
    exif = Pillow.Exif()
    exif[0x0112] = orientation
    image = Pillow.fromarray(np.array([[1, 2], [3, 4]], np.uint8))
    assert decoded(image, exif=exif)[..., 0].tolist() == upright.get(orientation, [[1, 2], [3, 4]])


def test_a_photograph_with_broken_exif_is_read_as_it_is() -> None:
    image = Pillow.fromarray(random_images(1, 16, 16, 3)[0])
    for exif in (b"Exif\0\0", b"Exif\0\0MM\0*\xff\xff\xff\xff", b"Exif\0\0II*\0\x08\0\0\0\xff\xff", b"garbage"):
        assert decoded(image, "JPEG", exif=exif).shape == (16, 16, 3)


@pytest.mark.parametrize("form", ["GIF", "PNG", "WEBP"])
def test_of_a_moving_picture_the_first_frame_is_taken_and_it_is_said(form: str, tmp_path: Path) -> None:
    frames = [Pillow.new("RGB", (8, 8), (200, 10 * i, 0)) for i in range(3)]
    path = tmp_path / "moving"
    path.write_bytes(encoded(frames[0], form, save_all=True, append_images=frames[1:], lossless=True))
    said: list[str] = []
    assert plain().read(str(path), said.append)[0, 0].tolist() == [200, 0, 0]
    assert said == [f"{path}: is an animation; only its first frame is used"]


def test_large_pictures_are_shrunk_on_request() -> None:
    image = Pillow.new("RGB", (400, 200), (0, 0, 0))
    image.paste((255, 255, 255), (200, 0, 400, 200))
    for form in ("PNG", "JPEG"):
        small = picture.decode_picture(encoded(image, form), "here", shortest=20)
        assert small.shape == (20, 40, 3) and (small[:, :17] < 20).all() and (small[:, 23:] > 235).all()
        assert picture.decode_picture(encoded(image, form), "here", shortest=300).shape == (200, 400, 3)
    exif = Pillow.Exif()
    exif[0x0112] = 6
    turned = picture.decode_picture(encoded(image, "JPEG", exif=exif), "here", shortest=20)
    assert turned.shape == (40, 20, 3) and (turned[:17] < 20).all() and (turned[23:] > 235).all()


def png_header(width: int, height: int) -> bytes:
    """A PNG file that claims a size and holds nothing."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def gif_header(width: int, height: int) -> bytes:
    screen = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + bytes(6)
    return screen + b"," + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\x02\x00;"


def bmp_header(width: int, height: int) -> bytes:
    info = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54, 0, 0, 54) + info


NO_PICTURE, DAMAGED, PIXELS = "is no picture that can be read", "damaged or cut off", "more than 25 million pixels"
PHOTO = encoded(Pillow.fromarray(random_images(1, 64, 64, 3)[0]), "JPEG")
SHARP = encoded(Pillow.fromarray(random_images(1, 64, 64, 3)[0]))


@pytest.mark.parametrize(
    "data, line",
    [
        (b"", NO_PICTURE),
        (b"\x89", NO_PICTURE),
        (b"hello world\n" * 100, NO_PICTURE),
        (b"\0" * 5000, NO_PICTURE),
        (b"<svg xmlns='http://www.w3.org/2000/svg' width='4' height='4'/>", NO_PICTURE),
        (encoded(Pillow.new("RGB", (4, 4)), "TIFF"), NO_PICTURE),
        (encoded(Pillow.new("RGB", (4, 4)), "PPM"), NO_PICTURE),
        (encoded(Pillow.new("RGB", (4, 4)), "PDF"), NO_PICTURE),
        (PHOTO[: len(PHOTO) // 2], DAMAGED),
        (PHOTO[:-1000], DAMAGED),
        (SHARP[: len(SHARP) // 2], DAMAGED),
        (SHARP[:2000] + bytes(500) + SHARP[2500:], DAMAGED),
        (png_header(64, 64), DAMAGED),
        (png_header(50_000, 50_000), PIXELS),
        (png_header(12_000, 12_000), PIXELS),  # more than Pillow warns of, less than it refuses
        (png_header(5001, 5000), PIXELS),
        (png_header(5000, 5000), DAMAGED),  # this many would do
        (gif_header(65_535, 65_535), PIXELS),
        (bmp_header(50_000, 50_000), PIXELS),
        (bmp_header(5001, 5000), PIXELS),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{len(value)} bytes",
)
def test_what_is_no_picture_is_said_in_a_line(
    data: bytes, line: str, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    path = tmp_path / "cat.png"
    path.write_bytes(data)
    with pytest.raises(UserError) as error:
        plain().read(str(path))
    assert str(error.value).startswith(str(path)) and line in str(error.value) and "\n" not in str(error.value)
    assert not recwarn.list


def test_too_many_pixels_are_never_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of a few kilobytes that would be 108 MB of pixels."""
    data = encoded(Pillow.new("RGB", (6000, 6000)))
    assert len(data) < 200_000

    def load(self: Any) -> None:
        raise AssertionError("it was decoded")

    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", load)
    with pytest.raises(UserError, match=PIXELS):
        picture.decode_picture(data, "here")


def test_too_many_bytes_are_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large.png"
    with path.open("wb") as stream:
        stream.truncate(20_000_001)  # a hole: no space is taken

    def opened(*_: Any) -> int:
        raise AssertionError("it was opened")

    monkeypatch.setattr(os, "open", opened)
    with pytest.raises(UserError, match="large.png has 20 MB; 20 MB are the most"):
        plain().read(str(path))
    with pytest.raises(UserError, match="here: has 20 MB"):
        picture.decode_picture(bytes(20_000_001), "here")


def test_paths_that_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(b"x")
    os.mkfifo(tmp_path / "pipe")
    for name, line in [
        ("car.png", "does not exist; did you mean 'cat.png'?"),
        ("", "is a folder"),
        ("no/where.png", "nor does the folder"),
        ("cat.png/more", "does not exist"),
        ("x" * 5000, "cannot be read (File name too long)"),
        ("a\0b", "does not exist"),
        ("pipe", "is a pipe or a device"),
    ]:
        with pytest.raises(UserError) as error:
            plain().read(str(tmp_path / name))
        assert line in str(error.value) and "\n" not in str(error.value), name


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cat.png"
    path.write_bytes(SHARP)

    def refused(*_: Any) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(UserError, match="cannot be read .Permission denied."):
        plain().read(str(path))


@pytest.mark.parametrize("form", picture.FORMATS)
def test_whatever_is_broken_ends_in_a_line(form: str) -> None:
    """Every kind of damage to a small file: pixels or one line, never another exception."""
    random = np.random.default_rng(0)
    image = Pillow.fromarray(random_images(1, 12, 12, 3)[0])
    good = encoded(image.convert("P") if form == "GIF" else image, form)
    pieces = [good[:cut] for cut in range(0, len(good), max(1, len(good) // 60))]
    for _ in range(150):
        bad = bytearray(good)
        for place in random.integers(0, min(len(bad), 400), random.integers(1, 8)):
            bad[place] = random.integers(0, 256)
        pieces.append(bytes(bad))
    refused = 0
    for piece in pieces:
        try:
            assert picture.decode_picture(piece, "here").dtype == np.uint8
        except UserError as error:
            refused += 1
            assert str(error).startswith("here: ") and "\n" not in str(error)
    assert refused > 20


def test_pillow_is_imported_only_when_a_picture_is_read() -> None:
    modules = "regard.data.input.image, regard.data.format.captions, regard.data.format.image_folder"
    program = f"import sys, {modules}; sys.exit('PIL' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


# How a picture is cut


WIDE = np.arange(4 * 8 * 3, dtype=np.uint8).reshape(4, 8, 3)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"resize": "square", "size": 4}, WIDE[:, 2:6]),
        ({"resize": "none", "size": 2}, WIDE[1:3, 3:5]),
        ({"resize": "stretch", "resize_to": 8, "filter": "nearest", "size": 2}, WIDE.repeat(2, 0)[3:5, 3:5]),
        ({"resize": "short_side", "resize_to": 8, "filter": "nearest", "size": 2}, WIDE.repeat(2, 0).repeat(2, 1)[3:5, 7:9]),
        ({"resize": "none", "size": 7}, np.pad(WIDE[:, :7], ((2, 1), (0, 0), (0, 0)))),
    ],
)  # fmt: skip
def test_what_is_cut_out_of_a_wide_picture(options: dict[str, Any], wanted: np.ndarray) -> None:
    made = Image.fit([WIDE], seed=1, mean=[0, 0, 0], spread=[1 / 255] * 3, **options)
    assert np.array_equal(made.shaped(WIDE), wanted)
    np.testing.assert_allclose(made.encode(WIDE), wanted.transpose(2, 0, 1), atol=1e-4)
    again = Image.from_files(made.files())
    for given in (WIDE, Pillow.fromarray(WIDE), made.accept(WIDE)):  # reduced once or twice, it is the same
        assert np.array_equal(again.shaped(again.accept(given)), wanted)


def test_mean_and_spread_are_those_that_are_stated() -> None:
    raws = random_images(3, 4, 4, 3)
    made = Image.fit(raws, seed=1, mean=[0.5, 0.25, 0.125], spread=[0.5, 1, 2])
    assert (made.mean, made.spread, made.channels) == ((0.5, 0.25, 0.125), (0.5, 1.0, 2.0), 3)
    assert Image.fit(raws, seed=1, mean=[0.5], spread=[0.5]).sizes() == {"channels": 1, "size": 4}


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"resize": "cut"}, "input.resize: no 'cut'; use square, stretch, short_side, none"),
        ({"filter": "cubic"}, "input.filter: no 'cubic'; use nearest, box"),
        ({"resize_to": 5000}, "input.resize_to: wants pixels, 1 to 1024"),
        ({"mean": [0.5]}, "input.mean, input.spread: want 1 (grey) or 3 (colours) numbers each; not 1 and 0"),
        ({"mean": [0.5], "spread": [1.0], "channels": 3}, "want 3 numbers each; not 1 and 1"),
        ({"mean": [0.5], "spread": [0.0]}, "input.spread: wants numbers above 0.000001, not 0.0"),
    ],
)
def test_a_way_that_is_not_known_is_refused_in_a_line(options: dict[str, Any], line: str) -> None:
    with pytest.raises(UserError) as error:
        Image.fit(random_images(2, 8, 8, 3), seed=1, **options)
    assert line in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("change", [{"resize": "cut"}, {"resize": 3}, {"resize": ["none"]}, {"filter": None}, {"resize_to": -1}, {"resize_to": 1e3}])  # fmt: skip
def test_a_damaged_way_of_resizing_is_refused(change: dict[str, Any]) -> None:
    good = {"kind": "image", "size": 4, "mean": [0.5], "spread": [1.0], **change}
    with pytest.raises(UserError, match="input.json: does not describe images"):
        Image.from_files({"input.json": json.dumps(good).encode()})
