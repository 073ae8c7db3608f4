"""Writes a classifier of pictures as a Hugging Face folder: ViT or DeiT, and how its pictures are read."""

from __future__ import annotations

import json
from collections.abc import Mapping

from torch import Tensor

from regard.config import Recipe
from regard.data.codec import Pair
from regard.data.input.image import Image
from regard.data.target.label import Label
from regard.interchange.families import _picture_processor
from regard.interchange.families.vit import ViT
from regard.interchange.write._language_model import Written


def written(weights: Mapping[str, Tensor], recipe: Recipe, pair: Pair, family: ViT) -> Written:
    """Config, tensors, and the file that says how a picture becomes pixel values."""
    assert isinstance(pair.input, Image) and isinstance(pair.target, Label)
    tensors: dict[str, Tensor] = {}
    for entry in family.entries(recipe.model, pair.sizes()):
        tensor = weights[entry.ours]
        parts = entry.split(tensor) if entry.split else tensor.chunk(len(entry.theirs))
        tensors |= dict(zip(entry.theirs, parts, strict=True))
    processor = json.dumps(_picture_processor.written(pair.input), indent=1).encode() + b"\n"
    config = family.config(recipe, pair.sizes(), pair.target)
    return Written(config, tensors, {_picture_processor.FILE: processor})
