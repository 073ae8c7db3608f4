"""Classifiers of pictures that are trained here compute the same in transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import regard
from regard.assemble import build_model, resolve_model
from regard.config import Recipe
from regard.data.codec import Pair
from regard.data.input._resizing import Resizing
from regard.data.input.image import Image
from regard.data.target.label import Label
from regard.loading import model_files
from regard.storage import write_folder
from tests.interchange.made_vits import picture

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

SIDE = 12
SHAPE = {"width": 16, "layers": 2, "heads": 2, "feed_forward": 24, "norm": "pre", "activation": "gelu"}


def trained_here(folder: Path, resizing: Resizing | None = None, channels: int = 3, **changes: Any) -> Path:
    """A model folder of ours with random weights."""
    torch.manual_seed(5)
    stem = changes.pop("stem", {})
    stem = stem if "kind" in stem else {"kind": "patches", "patch": 4, **stem}
    tree = resolve_model({"kind": "classifier", "pooling": "first", "stem": stem, **SHAPE, **changes})
    pair = Pair(Image(SIDE, [0.4] * channels, [0.3] * channels, resizing), Label(["a", "b", "c"]))
    model = build_model(tree, **pair.sizes())
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    recipe = Recipe(task="classify", model=tree)
    write_folder(folder, model_files(recipe, pair, dict(model.named_parameters()), "float32"))
    return folder


def both(folder: Path, place: Path) -> tuple[Any, Any, Any]:
    """Ours, and theirs with its processor."""
    regard.export(folder, place, format="huggingface")
    theirs = transformers.AutoModelForImageClassification.from_pretrained(place)
    return regard.load(folder, device="cpu"), theirs.eval(), transformers.AutoImageProcessor.from_pretrained(place)


SHAPES: dict[str, tuple[dict[str, Any], list[tuple[int, int]]]] = {
    "as usual": ({}, [(12, 12), (30, 30), (7, 7)]),
    "grey": ({"channels": 1, "activation": "relu"}, [(12, 12), (30, 30)]),
    "larger before the crop": ({"resizing": Resizing(SIDE, "square", 17)}, [(30, 30)]),
    "stretched": ({"resizing": Resizing(SIDE, "stretch", 0, "bilinear")}, [(30, 17), (12, 12)]),
    "stretched and cropped": ({"resizing": Resizing(SIDE, "stretch", 14)}, [(30, 17), (12, 12), (14, 14)]),
    "short side": ({"resizing": Resizing(SIDE, "short_side", 15, "lanczos")}, [(30, 17), (9, 14)]),
    "not resized": ({"resizing": Resizing(SIDE, "none")}, [(30, 17), (9, 14)]),
    "DeiT": ({"stem": {"distillation_token": True}}, [(30, 30)]),
    "DeiT with a teacher's head": ({"stem": {"distillation_token": True}, "pooling": "first_two"}, [(30, 30)]),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_picture_has_the_same_logits(tmp_path: Path, shape: str) -> None:
    changes, sizes = SHAPES[shape]
    folder = trained_here(tmp_path / "ours", **changes)
    ours, theirs, processor = both(folder, tmp_path / "theirs")
    for number, (width, height) in enumerate(sizes):
        image = picture("L" if changes.get("channels") == 1 else "RGB", width, height, number)
        pixels = processor(image, return_tensors="pt").pixel_values
        own = torch.from_numpy(ours.pair.input.encode(ours.pair.input.accept(image)))[None]
        torch.testing.assert_close(own, pixels, atol=1e-5, rtol=0)
        with torch.no_grad():
            found, wanted = ours.model(own, torch.ones(1, 1, dtype=torch.bool)), theirs(pixels).logits
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)


def test_a_picture_that_is_not_square_is_nearly_the_same(tmp_path: Path) -> None:
    """Ours cuts before it resizes, theirs after it."""
    ours, _, processor = both(trained_here(tmp_path / "ours"), tmp_path / "theirs")
    image = picture(width=300, height=200)
    pixels = processor(image, return_tensors="np").pixel_values[0]
    shades = 255 * 0.3 * np.abs(ours.pair.input.encode(ours.pair.input.accept(image)) - pixels)
    assert 0 < shades.mean() < 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pooling": "mean"}, "only pooling = first, with a class token"),
        ({"norm": "post"}, "only norm = pre"),
        ({"stem": {"position": "sinusoidal"}}, "only learned positions"),
        (
            {"stem": {"kind": "grid", "stages": 2}, "pooling": "mean"},
            "only pictures as patches, not a stem of the kind grid",
        ),
        ({"encoder": {"attention": "dot"}}, "only the attention multi_head"),
        ({"encoder": {"kind": "universal"}}, "only a Transformer, not universal"),
    ],
)
def test_what_no_family_computes_is_refused_in_one_line(tmp_path: Path, changes: Any, message: str) -> None:
    trained_here(tmp_path / "ours", **changes)
    with pytest.raises(regard.UserError, match=message) as error:
        regard.export(tmp_path / "ours", tmp_path / "theirs", format="huggingface")
    assert "\n" not in str(error.value) and not (tmp_path / "theirs").exists()
