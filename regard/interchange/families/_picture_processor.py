"""preprocessor_config.json: how a picture becomes pixel values, as our picture input and back."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from regard.data.input._resizing import LARGEST, Resizing
from regard.data.input.image import Image
from regard.errors import UserError, suggestion
from regard.interchange.families._config import Config
from regard.interchange.read.foreign_folder import ForeignFolder

FILE = "preprocessor_config.json"
FILTERS = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "box": 4, "hamming": 5}
"""Pillow's numbers of its filters."""
_CLIP_MEAN, _CLIP_SPREAD = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
_KNOWN = (
    *("image_processor_type", "feature_extractor_type", "processor_class", "_processor_class", "data_format"),
    *("input_data_format", "device", "return_tensors", "disable_grouping", "_valid_processor_keys", "do_convert_rgb"),
    *("image_seq_length", "auto_map", "pad_size", "model_input_names", "backend"),
)
"""What changes no pixel of a picture. Ours is always grey or in colour as the model needs it."""


class Usual(NamedTuple):
    """What a kind of processor does unless its file says otherwise."""

    size: Any
    crop: int | None
    filter: str
    mean: list[float]
    spread: list[float]
    square: bool
    """Whether one number for the size means both sides; otherwise the short side."""


_HALF = [0.5]
USUAL = {
    "ViT": Usual(224, None, "bilinear", _HALF, _HALF, True),
    "DeiT": Usual(256, 224, "bicubic", _HALF, _HALF, True),
    "CLIP": Usual(224, 224, "bicubic", _CLIP_MEAN, _CLIP_SPREAD, False),
    "Bit": Usual(224, 224, "bicubic", _CLIP_MEAN, _CLIP_SPREAD, False),
}


def read(files: ForeignFolder, kind: str, channels: int, side: int) -> Image:
    """The input of a model that reads pictures of `side` pixels. `kind`: the processor where the file names none."""
    if FILE not in files:
        raise UserError(f"{files.path}: {FILE} is missing, which says how pictures are read; add it")
    config = Config(files.json(FILE), str(files.path / FILE))
    usual = _usual(config, kind)
    _refuse_others(config)
    cropped = _square(config, "crop_size", usual.crop) if config.flag("do_center_crop", usual.crop is not None) else 0
    way, to = _size(config, usual) if config.flag("do_resize", True) else ("none", 0)
    if way == "short_side" and not cropped:
        raise config.refuse("size", "pictures of different shapes are not known here; do_center_crop must be true")
    made = cropped or to or side
    if made != side:
        raise UserError(f"{config.where}: makes pictures of {made} x {made} pixels, but the model reads {side}")
    mean, spread = _normalisation(config, usual, channels)
    chosen = config.get("resample", FILTERS[usual.filter])
    by_number = {number: name for name, number in FILTERS.items()}
    if type(chosen) is not int or chosen not in by_number:
        raise config.refuse("resample", "not known here; a number from 0 to 5 is needed")
    return Image(side, mean, spread, Resizing(side, way, 0 if to in (0, side) else to, by_number[chosen]))


def _usual(config: Config, kind: str) -> Usual:
    for key in ("image_processor_type", "feature_extractor_type"):
        stated = config.get(key)
        if stated is None:
            continue
        name = str(stated)
        for ending in ("Pil", "Fast", "ImageProcessor", "FeatureExtractor"):
            name = name.removesuffix(ending)
        if name not in USUAL:
            known = [f"{one}ImageProcessor" for one in USUAL]
            raise config.refuse(key, f"not known here; there is: {', '.join(known)}{suggestion(str(stated), known)}")
        return USUAL[name]
    return USUAL[kind]


def _refuse_others(config: Config) -> None:
    """Refuses steps that are not known here; other keys change nothing in transformers either."""
    read = {"do_resize", "do_center_crop", "do_rescale", "do_normalize", *_KNOWN}
    for key, value in config.values.items():
        if key not in read and str(key).startswith(("do_", "crop_pct")) and value not in (None, False):
            raise config.refuse(str(key)[:80], "this step is not known here")


def _square(config: Config, key: str, default: Any) -> int:
    """A side from a number, [height, width] or a table."""
    value = config.get(key, default)
    if isinstance(value, dict) and value.keys() >= {"height", "width"}:
        value = [value["height"], value["width"]]
    sides = value if isinstance(value, list) else [value] * 2
    if len(sides) != 2 or any(type(side) is not int for side in sides) or not 1 <= min(sides) <= max(sides) <= LARGEST:
        raise config.refuse(key, f"a side of 1 to {LARGEST} pixels is needed")
    if sides[0] != sides[1]:
        raise config.refuse(key, "only squares are known here")
    return int(sides[0])


def _size(config: Config, usual: Usual) -> tuple[str, int]:
    value = config.get("size", usual.size)
    stated = value if isinstance(value, dict) else {}
    if stated.keys() - {"height", "width", "shortest_edge"}:
        raise config.refuse("size", "only height and width, or shortest_edge, are known here")
    short = stated.get("shortest_edge", value if type(value) is int else None)
    if "shortest_edge" in stated or (type(value) is int and not config.flag("default_to_square", usual.square)):
        if type(short) is not int or not 1 <= short <= LARGEST:
            raise config.refuse("size", f"a side of 1 to {LARGEST} pixels is needed")
        return "short_side", short
    return "stretch", _square(config, "size", usual.size)


def _normalisation(config: Config, usual: Usual, channels: int) -> tuple[list[float], list[float]]:
    """(pixel * factor - mean) / std as (pixel / 255 - mean) / spread."""
    factor = config.number("rescale_factor", 1 / 255, 1e-6, 1e6) if config.flag("do_rescale", True) else 1.0
    scale = 1.0 if math.isclose(255 * factor, 1) else 255 * factor
    mean, spread = [0.0] * channels, [1.0] * channels
    if config.flag("do_normalize", True):
        mean, spread = (
            _numbers(config, *each, channels) for each in (("image_mean", usual.mean), ("image_std", usual.spread))
        )
    if min(spread) / scale <= 1e-6:
        raise config.refuse("image_std", "larger numbers are needed")
    return [one / scale for one in mean], [one / scale for one in spread]


def _numbers(config: Config, key: str, default: list[float], channels: int) -> list[float]:
    value = config.get(key, default)
    numbers = value * channels if value is _HALF else value if isinstance(value, list) else [value] * channels
    if len(numbers) != channels or any(
        isinstance(one, bool) or not isinstance(one, int | float) or not abs(one) <= 1e6 for one in numbers
    ):
        raise config.refuse(key, f"{channels} numbers are needed, one for each channel of the model")
    return list(map(float, numbers))


def written(image: Image) -> dict[str, Any]:
    """The file for an input of ours. Their nearest to a central square that is resized is the short side resized and
    the centre cut out: the same for a square picture, and all but a few borders for others."""
    resizing = image.resizing
    to = resizing.to or image.size
    both = {"height": to, "width": to}
    short = resizing.way in ("square", "short_side")
    crops = short or resizing.way == "none" or to != image.size
    return {
        "image_processor_type": f"{'Bit' if short else 'DeiT' if crops else 'ViT'}ImageProcessor",
        "do_convert_rgb": image.channels == 3,
        "do_resize": resizing.way != "none",
        "size": {"shortest_edge": to} if short else both,
        "resample": FILTERS[resizing.filter],
        "do_center_crop": crops,
        **({"crop_size": {"height": image.size, "width": image.size}} if crops else {}),
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(image.mean),
        "image_std": list(image.spread),
    }
