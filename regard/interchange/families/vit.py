"""ViT (Dosovitskiy et al. 2021) and DeiT (Touvron et al. 2021): pictures as patches, read off the class token.

DeiT has a distillation token, and with a teacher's head a second output layer: the mean of both is one layer over both
tokens. A model without an output layer gets one of zeros, to be trained here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from regard.config import Data, Recipe, Training
from regard.data.codec import Pair
from regard.data.target.label import Label
from regard.interchange.families import _picture_processor
from regard.interchange.families._base import ACTIVATIONS, THEIR_ACTIVATIONS
from regard.interchange.families._config import Config
from regard.interchange.families._entry import Entry
from regard.interchange.families._labels import labels_of, refuse_other_problems
from regard.interchange.families._task_family import Reading, TaskFamily
from regard.interchange.read.foreign_folder import ForeignFolder
from regard.interchange.read.stored_tensors import StoredTensors

__all__ = ["ViT"]

_BARE = ("ViTModel", "DeiTModel")
_HEAD, _HEADS = "classifier", ("cls_classifier", "distillation_classifier")
_LAYER = re.compile(r"^((?:vit|deit)\.)?layers\.")
_NEWER = {
    "attention.q_proj": "attention.attention.query",
    "attention.k_proj": "attention.attention.key",
    "attention.v_proj": "attention.attention.value",
    "attention.o_proj": "attention.output.dense",
    "mlp.fc1": "intermediate.dense",
    "mlp.fc2": "output.dense",
}
"""Names within a layer of transformers 5 in memory, and those of files."""


class ViT(TaskFamily):
    """Files of the bare model leave out the prefix of the names."""

    model_types = ("vit", "deit")
    architectures = (
        "ViTForImageClassification",
        "DeiTForImageClassification",
        "DeiTForImageClassificationWithTeacher",
        *_BARE,
    )

    def name(self, theirs: str) -> str:
        layer = _LAYER.match(theirs)
        if layer:
            theirs = f"{layer[1] or ''}encoder.layer.{theirs[layer.end() :]}"
            newer = next((one for one in _NEWER if f".{one}." in theirs), "")
            theirs = theirs.replace(newer, _NEWER[newer]) if newer else theirs
        own = (f"{self.variant}.", f"{_HEAD}.", *(f"{one}." for one in _HEADS), "decoder.")
        return theirs if theirs.startswith(own) else f"{self.variant}.{theirs}"

    def read(
        self,
        config: Config,
        generation: Config,
        files: ForeignFolder,
        stored: StoredTensors,
        note: Callable[[str], None],
    ) -> Reading:
        refuse_other_problems(config)
        heads = self._heads(config, stored, note)
        labels = labels_of(config, stored.shape(f"{heads[0]}.weight")[0] if heads else None)
        model = self._model(config, len(heads) > 1)
        kind = "ViT" if self.variant == "vit" else "DeiT"
        image = _picture_processor.read(files, kind, _channels(config), _side(config, "image_size", 224))
        recipe = Recipe(
            task="classify",
            data=Data(root="data"),
            input={
                "size": image.size,
                "channels": image.channels,
                "resize": image.resizing.way,
                "resize_to": image.resizing.to,
                "filter": image.resizing.filter,
                "mean": list(image.mean),
                "spread": list(image.spread),
            },
            model=model,
            training=Training(batch_examples=32),
        )
        sizes = {"labels": len(labels.names), "size": image.size, "channels": image.channels}
        entries = list(self._entries(model, sizes, heads, config.flag("qkv_bias", True)))
        return Reading(recipe, Pair(image, labels), entries, unused=(f"{self.variant}.pooler.",))

    def _heads(self, config: Config, stored: StoredTensors, note: Callable[[str], None]) -> tuple[str, ...]:
        """The names of the output layers: one, two, or none."""
        if any(f"{one}.weight" in stored for one in _HEADS):
            return _HEADS
        stated = config.get("architectures", [])
        if f"{_HEAD}.weight" in stored or any(one not in _BARE for one in stated):
            return (_HEAD,)
        note("it has no output layer: it is one of zeros, and labels mean nothing until it is trained (train --start)")
        return ()

    def _model(self, config: Config, both: bool) -> dict[str, Any]:
        for key in ("encoder_stride", "initializer_range", "pooler_act", "pooler_output_size"):
            config.get(key)  # of other uses, and of a pooling layer that no classifier reads
        side, patch = _side(config, "image_size", 224), _side(config, "patch_size", 16)
        if side % patch:
            raise config.refuse("patch_size", f"does not divide pictures of {side} x {side} pixels")
        width = config.integer("hidden_size", 768, least=1)
        dropout = config.dropout("hidden_dropout_prob", 0.0)
        dropped = config.dropout("attention_probs_dropout_prob", 0.0)
        return {
            "kind": "classifier",
            "pooling": "first_two" if both else "first",
            "head_dropout": 0.0,
            "stem": {
                "kind": "patches",
                "patch": patch,
                "width": width,
                "position": "learned",
                "class_token": True,
                "distillation_token": self.variant == "deit",
                "dropout": dropout,
            },
            "encoder": {
                "kind": "transformer",
                "width": width,
                "layers": config.integer("num_hidden_layers", 12, least=1, most=1000),
                "heads": config.integer("num_attention_heads", 12, least=1),
                "feed_forward": config.integer("intermediate_size", 3072, least=1),
                "dropout": dropout,
                "norm": "pre",
                "norm_epsilon": config.number("layer_norm_eps", 1e-12),
                "activation": config.choice("hidden_act", "gelu", ACTIVATIONS),
                "attention": {"kind": "multi_head", "dropout": dropped} if dropped else "multi_head",
            },
        }

    def entries(self, model: Mapping[str, Any], sizes: Mapping[str, int]) -> list[Entry]:
        """All parameters of a model of ours; `sizes` are those of its codec."""
        heads = _HEADS if model["pooling"] == "first_two" else (_HEAD,)
        return list(self._entries(model, sizes, heads, True))

    def _entries(
        self, model: Mapping[str, Any], sizes: Mapping[str, int], heads: tuple[str, ...], biases: bool
    ) -> Iterator[Entry]:
        stem, encoder, start = model["stem"], model["encoder"], f"{self.variant}.embeddings"
        width, patch = stem["width"], stem["patch"]
        yield _reshaped("stem.class_token", f"{start}.cls_token", (1, 1, width), (width,))
        if stem["distillation_token"]:
            yield _reshaped("stem.distillation_token", f"{start}.distillation_token", (1, 1, width), (width,))
        count = (sizes["size"] // patch) ** 2 + 1 + stem["distillation_token"]
        positions = f"{start}.position_embeddings"
        yield _reshaped("stem.placing.position.table.weight", positions, (1, count, width), (count, width))
        project, pixels = f"{start}.patch_embeddings.projection", sizes["channels"] * patch * patch
        shape = (width, sizes["channels"], patch, patch)
        yield _reshaped("stem.project.weight", f"{project}.weight", shape, (width, pixels))
        yield Entry("stem.project.bias", (f"{project}.bias",))
        yield from _same("encoder.norm", f"{self.variant}.layernorm")
        for number in range(encoder["layers"]):
            yield from _layer(f"encoder.layers.{number}", f"{self.variant}.encoder.layer.{number}", width, biases)
        yield from _output(heads, sizes["labels"], width)

    def why_not(self, recipe: Recipe) -> str:
        """Why this family cannot hold a classifier of pictures with this recipe exactly; empty if it can."""
        model = recipe.model
        stem, encoder = model["stem"], model["encoder"]
        if stem["kind"] != "patches":
            return f"only pictures as patches, not a stem of the kind {stem['kind']}"
        if encoder["kind"] != "transformer":
            return f"only a Transformer, not {encoder['kind']}"
        for key, value in (
            ("norm", "pre"),
            ("norm_kind", "layer"),
            ("gated", False),
            ("bias", True),
            ("relative_position", "none"),
        ):
            if encoder[key] != value:
                return f"only {key} = {str(value).lower()}"
        position, attention = _table(stem["position"]), _table(encoder["attention"])
        if position["kind"] != "learned" or position.keys() - {"kind"}:
            return "only learned positions, one for each patch"
        if attention["kind"] != "multi_head" or attention.keys() - {"kind", "dropout"}:
            return "only the attention multi_head, with as many keys as queries"
        if encoder["head_width"] not in (0, encoder["width"] // encoder["heads"]):
            return "only heads that share the width"
        if encoder["activation"] not in THEIR_ACTIVATIONS:
            return f"no activation {encoder['activation']}"
        if model["pooling"] not in ("first", "first_two") or not stem["class_token"]:
            return "only pooling = first, with a class token"
        return "" if stem["distillation_token"] == (self.variant == "deit") else "no or another distillation token"

    def config(self, recipe: Recipe, sizes: Mapping[str, int], labels: Label) -> dict[str, Any]:
        """Their config of a model with this recipe."""
        stem, encoder = recipe.model["stem"], recipe.model["encoder"]
        which = "ViT" if self.variant == "vit" else "DeiT"
        teacher = "WithTeacher" if recipe.model["pooling"] == "first_two" else ""
        return {
            "model_type": self.variant,
            "architectures": [f"{which}ForImageClassification{teacher}"],
            "hidden_size": encoder["width"],
            "num_hidden_layers": encoder["layers"],
            "num_attention_heads": encoder["heads"],
            "intermediate_size": encoder["feed_forward"],
            "hidden_act": THEIR_ACTIVATIONS[encoder["activation"]],
            "hidden_dropout_prob": encoder["dropout"],
            "attention_probs_dropout_prob": _table(encoder["attention"]).get("dropout", 0.0),
            "layer_norm_eps": encoder["norm_epsilon"],
            "image_size": sizes["size"],
            "patch_size": stem["patch"],
            "num_channels": sizes["channels"],
            "qkv_bias": True,
            "id2label": {str(id): name for id, name in enumerate(labels.names)},
            "label2id": {name: id for id, name in enumerate(labels.names)},
        }


def _side(config: Config, key: str, default: int) -> int:
    """The side of a square, which some files state twice."""
    value = config.get(key, default)
    if isinstance(value, list) and len(value) == 2 and all(type(side) is int for side in value):
        if value[0] != value[1]:
            raise config.refuse(key, "only squares are known here")
        value = value[0]
    if type(value) is not int or not 1 <= value <= _picture_processor.LARGEST:
        raise config.refuse(key, f"a side of 1 to {_picture_processor.LARGEST} pixels is needed")
    return value


def _channels(config: Config) -> int:
    found = config.integer("num_channels", 3)
    if found not in (1, 3):
        raise config.refuse("num_channels", "1 (grey) or 3 (colour) is needed")
    return found


def _layer(ours: str, theirs: str, width: int, biases: bool) -> Iterator[Entry]:
    projections = tuple(f"{theirs}.attention.attention.{one}" for one in ("query", "key", "value"))
    yield Entry(f"{ours}.attention.inward.weight", tuple(f"{one}.weight" for one in projections))
    if biases:
        yield Entry(f"{ours}.attention.inward.bias", tuple(f"{one}.bias" for one in projections))
    else:
        yield Entry(f"{ours}.attention.inward.bias", (), make=lambda: torch.zeros(3 * width))
    yield from _same(f"{ours}.attention.outward", f"{theirs}.attention.output.dense")
    yield from _same(f"{ours}.feed_forward.inward", f"{theirs}.intermediate.dense")
    yield from _same(f"{ours}.feed_forward.outward", f"{theirs}.output.dense")
    yield from _same(f"{ours}.around_attention.norm", f"{theirs}.layernorm_before")
    yield from _same(f"{ours}.around_feed_forward.norm", f"{theirs}.layernorm_after")


def _output(heads: tuple[str, ...], labels: int, width: int) -> Iterator[Entry]:
    if not heads:
        yield Entry("head.weight", (), make=lambda: torch.zeros(labels, width))
        yield Entry("head.bias", (), make=lambda: torch.zeros(labels))
    elif len(heads) == 1:
        yield from _same("head", heads[0])
    else:  # (W_1 x_1 + b_1 + W_2 x_2 + b_2) / 2
        yield Entry(
            "head.weight",
            tuple(f"{one}.weight" for one in heads),
            shapes=((labels, width),) * 2,
            make=lambda *both: torch.cat(both, 1) / 2,
            split=lambda ours: (2 * ours).chunk(2, 1),
        )
        yield Entry(
            "head.bias",
            tuple(f"{one}.bias" for one in heads),
            shapes=((labels,),) * 2,
            make=lambda one, other: (one + other) / 2,
            split=lambda ours: (ours, ours.clone()),
        )


def _reshaped(ours: str, theirs: str, shape: tuple[int, ...], own: tuple[int, ...]) -> Entry:
    return Entry(
        ours, (theirs,), shapes=(shape,), make=lambda tensor: tensor.reshape(own), split=lambda t: (t.reshape(shape),)
    )


def _same(ours: str, theirs: str) -> Iterator[Entry]:
    for part in ("weight", "bias"):
        yield Entry(f"{ours}.{part}", (f"{theirs}.{part}",))


def _table(spec: Any) -> dict[str, Any]:
    return dict(spec) if isinstance(spec, dict) else {"kind": spec}
