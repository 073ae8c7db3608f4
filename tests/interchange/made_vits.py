"""Tiny ViTs and DeiTs with random weights, as transformers writes them, and pictures of many kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from PIL import Image
from transformers import DeiTConfig, ViTConfig

SIDE = 16
SHAPE = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "image_size": SIDE,
    "patch_size": 4,
}
NAMES = {"id2label": {0: "cat", 1: "sea\tgull ", 2: "cat", 3: "7"}, "label2id": {"cat": 0, "sea\tgull ": 1, "7": 3}}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "vit": ("ViTForImageClassification", NAMES),
    "vit-shapes": (
        "ViTForImageClassification",
        {
            "hidden_size": 20,
            "num_attention_heads": 5,
            "image_size": 24,
            "patch_size": 6,
            "qkv_bias": False,
            "hidden_act": "gelu_new",
            "layer_norm_eps": 1e-3,
            "hidden_dropout_prob": 0.1,
            "attention_probs_dropout_prob": 0.2,
        },
    ),
    "vit-grey": ("ViTForImageClassification", {"num_channels": 1, "hidden_act": "relu"}),
    "vit-bare": ("ViTModel", NAMES),
    "deit": ("DeiTForImageClassification", NAMES),
    "deit-teacher": ("DeiTForImageClassificationWithTeacher", NAMES),
}


def made(folder: Path, name: str, processor: Any = None, **changes: Any) -> Any:
    """A model of transformers, saved with its processor."""
    maker, own = VARIANTS[name]
    torch.manual_seed(3)
    kind = DeiTConfig if maker.startswith("DeiT") else ViTConfig
    config = kind(**SHAPE | own | changes)
    model = getattr(transformers, maker)(config).eval()
    for parameter in model.parameters():  # no weight is special
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    if processor is None:
        side, channels = config.image_size, config.num_channels
        processor = transformers.ViTImageProcessorPil(
            size={"height": side, "width": side},
            image_mean=[0.4, 0.5, 0.6][:channels],
            image_std=[0.2, 0.3, 0.4][:channels],
        )
    processor.save_pretrained(folder)
    return model


def picture(mode: str = "RGB", width: int = 30, height: int = 23, seed: int = 0) -> Image.Image:
    """Noise over a gradient, so that every filter and border shows."""
    noise = np.random.default_rng(seed).integers(0, 120, (height, width, 4))
    slope = np.linspace(0, 130, width)[None, :, None] + np.zeros((height, 1, 1))
    pixels = (noise + slope).astype(np.uint8)
    whole = Image.fromarray(pixels)
    if mode == "P":
        return whole.convert("RGB").quantize(16)
    if mode == "P transparent":
        found = whole.convert("RGB").quantize(16)
        found.info["transparency"] = 3
        return found
    return whole if mode == "RGBA" else whole.convert("RGB").convert(mode) if mode != "LA" else whole.convert("LA")
