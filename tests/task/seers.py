"""Tiny image models with random weights: a classifier and a captioner."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.assemble import build_model, resolve_model
from regard.config import Decoding, Recipe
from regard.data.codec import Pair
from regard.data.input.image import Image
from regard.data.input.sound import SoundInput
from regard.data.target.label import Label
from regard.data.target.text import Text
from regard.data.tokenizer.word import Word
from regard.loading import model_files
from regard.storage import write_folder
from regard.task.caption import Captioner
from regard.task.classify import Classifier
from regard.task.transcribe import Transcriber

NAMES = ["bag", "boot", "coat", "dress"]
LINES = ["a red circle above a blue square", "a green cross left of a white circle", "there is a yellow triangle"]
SIZE, PATCH = 12, 4
"""Three rows of three patches."""
DECODERS: dict[str, dict[str, Any]] = {
    "attentional": {"encoder": "none", "decoder": {"kind": "attentional", "cell": "lstm", "layers": 1}},
    "transformer": {"encoder": {"kind": "transformer", "layers": 1}, "decoder": {"kind": "transformer", "layers": 2}},
    "recurrent": {"encoder": "none", "decoder": {"kind": "recurrent"}},
}


def classifier(seed: int = 3, **stem: Any) -> Classifier:
    """A ViT that sees grey pictures of SIZE pixels."""
    tree = {
        "kind": "classifier",
        "stem": {"kind": "patches", "patch": PATCH, **stem},
        "pooling": "first" if stem.get("class_token", True) else "mean",
        "width": 16,
        "heads": 2,
        "feed_forward": 32,
        "layers": 3,
        "norm": "pre",
    }
    pair = Pair(Image(SIZE, [0.3], [0.35]), Label(NAMES))
    return Classifier(*_made("classify", tree, pair, seed), torch.device("cpu"))


def captioner(decoder: str = "attentional", seed: int = 3, beam: int = 4) -> Captioner:
    """A grid of four by four places in pictures of 16 pixels, in colour."""
    stem = {"kind": "grid", "stages": 2}
    tree = {"kind": "seq2seq", "stem": stem, "width": 16, "heads": 2, "feed_forward": 32, "share": False}
    if decoder != "transformer":
        tree = {name: tree[name] for name in ("kind", "stem", "width", "share")}
    pair = Pair(Image(16, [0.3, 0.3, 0.3], [0.35, 0.3, 0.35]), Text(Word.train(LINES, seed=1)))
    recipe, pair, model = _made("caption", {**tree, **DECODERS[decoder]}, pair, seed)
    recipe.decoding = Decoding(beam=beam, max_length=8)
    return Captioner(recipe, pair, model, torch.device("cpu"))


def transcriber(seed: int = 3) -> Transcriber:
    tree = {
        "kind": "seq2seq",
        "stem": {"kind": "frames", "position": "none"},
        "encoder": {"kind": "recurrent", "cell": "gru", "layers": 1},
        "decoder": {"kind": "attentional", "cell": "gru", "layers": 1},
        "width": 16,
        "share": False,
    }
    recipe, pair, model = _made("transcribe", tree, Pair(SoundInput(8000), Text(Word.train(LINES, seed=1))), seed)
    recipe.decoding = Decoding(beam=2, max_length=5)
    return Transcriber(recipe, pair, model, torch.device("cpu"))


def _made(task: str, tree: dict[str, Any], pair: Pair, seed: int) -> tuple[Recipe, Pair, Any]:
    """Weights are larger than usual: fresh ones would answer every picture alike."""
    torch.manual_seed(seed)
    resolved = resolve_model(tree)
    model = build_model(resolved, **pair.sizes())
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1.6)
    recipe = Recipe(task=task, model=resolved, tokenizer={"kind": "word"})
    return recipe, pair, model


def by_hand(task: Classifier, pixels: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """A ViT spelled out again: the weights of each layer (heads, tokens, tokens), and the probabilities."""
    model = task.model
    scaled = (pixels[..., 0] / 255 - 0.3) / 0.35
    rows = [scaled[y : y + PATCH, x : x + PATCH].ravel() for y in range(0, SIZE, PATCH) for x in range(0, SIZE, PATCH)]
    patches = torch.tensor(np.array(rows), dtype=torch.float32)
    x = patches @ model.stem.project.weight.T + model.stem.project.bias
    if model.stem.class_token is not None:
        x = torch.cat([model.stem.class_token[None], x])
    x = x + model.stem.placing.position(torch.arange(len(x)))
    found = []
    for layer in model.encoder.layers:
        norm = layer.around_attention.norm
        y = torch.nn.functional.layer_norm(x, x.shape[-1:], norm.weight, norm.bias)
        query, key, value = layer.attention.inward(y).chunk(3, -1)
        heads = [part.unflatten(-1, (2, -1)).transpose(0, 1) for part in (query, key, value)]
        weights = (heads[0] @ heads[1].transpose(1, 2) / heads[0].shape[-1] ** 0.5).softmax(-1)
        found.append(weights.detach().numpy())
        x = x + layer.attention.outward((weights @ heads[2]).transpose(0, 1).flatten(1))
        norm = layer.around_feed_forward.norm
        y = torch.nn.functional.layer_norm(x, x.shape[-1:], norm.weight, norm.bias)
        x = x + layer.feed_forward(y[None])[0]
    states = model.encoder.norm(x)
    pooled = states[0] if model.stem.class_token is not None else states.mean(0)
    return found, model.head(pooled).softmax(-1).detach().numpy()


def saved(task: Classifier | Captioner, folder: Path) -> Path:
    weights = {name: weight.detach() for name, weight in task.model.named_parameters()}
    write_folder(folder, model_files(task.recipe, task.pair, weights, "float32"))
    return folder


def picture(height: int = SIZE, width: int = SIZE, channels: int = 1, seed: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels)).astype(np.uint8)


def png(pixels: np.ndarray, mode: str | None = None, kind: str = "PNG") -> bytes:
    from PIL import Image as Pillow

    image = Pillow.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    file = io.BytesIO()
    (image.convert(mode) if mode else image).save(file, kind)
    return file.getvalue()
