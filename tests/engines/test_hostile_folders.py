"""R24: what torch refuses in a model folder from anybody, the way by CTranslate2 refuses, too; the rest means the same."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from engines.conftest import LINES, refusal
from torch import Tensor

from regard import engines
from regard.loading import load
from regard.storage import read_folder, write_folder
from regard.toml_text import toml_text
from regard.weights import load_tensors, load_weights, save_tensors, save_weights

TABLE = "stem.embedding.table.weight"
BIAS = "encoder.layers.0.feed_forward.inward.bias"
WEIGHT = "encoder.layers.0.feed_forward.inward.weight"


def texts(model: Any) -> list[str]:
    return [one.text for one in model.translate(LINES[:2], beam=1, max_length=12)]


def loaded(place: Path, engine: str) -> Any:
    return engines.load_with(place, "cpu", engine=engine)


def put(tree: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    tree = copy.deepcopy(tree)
    *path, last = key.split(".")
    node = tree
    for name in path:
        node = node[name]
    node[last] = value
    return tree


def variant(folder: Path, place: Path, weights: bytes | None = None, **settings: Any) -> Path:
    """A copy of a model folder with another weight file or other settings (__ for dots), as if made so."""
    origin = read_folder(folder)
    files: dict[str, bytes] = {name: origin.read(name) for name in origin.names if name != "weights.safetensors"}
    recipe = tomllib.loads(files["recipe.toml"].decode())
    for key, value in settings.items():
        recipe = put(recipe, key.replace("__", "."), value)
    files["recipe.toml"] = toml_text(recipe).encode()
    files["weights.safetensors"] = weights or origin.file("weights.safetensors").read_bytes()
    write_folder(place, files)
    return place


def edited(change: Mapping[str, Tensor | None]) -> Callable[[Path], bytes]:
    def weights(folder: Path) -> bytes:
        tensors = {**load_weights(folder / "weights.safetensors"), **change}
        return save_tensors({name: tensor for name, tensor in tensors.items() if tensor is not None})

    return weights


def in_int8(change: Callable[[dict[str, Tensor], list[str]], object]) -> Callable[[Path], bytes]:
    def weights(folder: Path) -> bytes:
        whole = save_weights(load_weights(folder / "weights.safetensors"), "int8")
        tensors = load_tensors(whole)
        scaled = sorted(name.removesuffix(".scale") for name in tensors if name.endswith(".scale"))
        change(tensors, scaled)
        return save_tensors(tensors, {"precision": "int8", "scaled": scaled})

    return weights


def patched(old: bytes, new: bytes) -> Callable[[Path], bytes]:
    def weights(folder: Path) -> bytes:
        content = (folder / "weights.safetensors").read_bytes()
        assert content.count(old) == 1 and len(old) == len(new)
        return content.replace(old, new)

    return weights


def with_values(value: float) -> Callable[[Path], bytes]:
    """`save_tensors` refuses to write such values."""

    def weights(folder: Path) -> bytes:
        mark = torch.full((64,), 0.123456789)
        content = edited({BIAS: mark})(folder)
        assert content.count(mark.numpy().tobytes()) == 1
        return content.replace(mark.numpy().tobytes(), torch.full((64,), value).numpy().tobytes())

    return weights


def scale_of_a_vector(tensors: dict[str, Tensor], scaled: list[str]) -> None:
    tensors[BIAS] = torch.ones(64, dtype=torch.int8)
    tensors[f"{BIAS}.scale"] = torch.ones(64)
    scaled.append(BIAS)


HOSTILE_WEIGHTS = {
    "a shape": edited({BIAS: torch.zeros(63)}),
    "a transposed matrix": edited({WEIGHT: torch.zeros(32, 64)}),
    "a table of fewer tokens": edited({TABLE: torch.zeros(9, 32)}),
    "a weight too many": edited({"more": torch.zeros(1)}),
    "a weight with a strange name": edited({"\x1b[2J\n" * 99: torch.zeros(1)}),
    "a weight missing": edited({BIAS: None}),
    "integers": edited({BIAS: torch.zeros(64, dtype=torch.int64)}),
    "int8 without a scale": edited({WEIGHT: torch.zeros(64, 32, dtype=torch.int8)}),
    "not a number": with_values(float("nan")),
    "infinity": with_values(float("inf")),
    "a number too large for float32": edited({BIAS: torch.full((64,), 1e300, dtype=torch.float64)}),
    "no scale": in_int8(lambda tensors, scaled: tensors.pop(f"{WEIGHT}.scale")),
    "a scale of another length": in_int8(lambda tensors, scaled: tensors.update({f"{WEIGHT}.scale": torch.ones(63)})),
    "a scale of another type": in_int8(lambda tensors, scaled: tensors.update({f"{WEIGHT}.scale": torch.ones(64).half()})),
    "a scale that is too large": in_int8(lambda tensors, scaled: tensors[f"{WEIGHT}.scale"].fill_(3e38)),
    "a scale of floats": in_int8(lambda tensors, scaled: tensors.update({WEIGHT: torch.ones(64, 32)})),
    "a scale of a vector": in_int8(scale_of_a_vector),
    "a scale of nothing": in_int8(lambda tensors, scaled: scaled.append("nothing")),
    "a damaged header": patched(b'"__metadata__"', b'"__metadata_x"'),
}  # fmt: skip


@pytest.mark.parametrize("fault", HOSTILE_WEIGHTS)
def test_hostile_weights_get_the_error_that_torch_gives(fault, folder, tmp_path, capfd):
    place = variant(folder, tmp_path / "model", HOSTILE_WEIGHTS[fault](folder))
    theirs = refusal(lambda: load(place, "cpu"))
    assert refusal(lambda: loaded(place, "auto")) == theirs
    refusal(lambda: loaded(place, "ctranslate2"))
    assert "".join(capfd.readouterr()) == ""  # nor does NumPy or CTranslate2 say anything


def zero(tensors: dict[str, Tensor], scaled: list[str], scale: float) -> None:
    tensors[f"{WEIGHT}.scale"][:32] = scale
    tensors[WEIGHT][:32] = 127


@pytest.mark.parametrize("scale", [0.0, 1e-42, -1e-3])
def test_unusual_scales_mean_what_they_mean_to_torch(scale, folder, tmp_path, capfd):
    place = variant(folder, tmp_path / "model", in_int8(lambda t, s: zero(t, s, scale))(folder))
    model = loaded(place, "ctranslate2")
    assert texts(model) == texts(load(place, "cpu"))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("tiny", [0.0, 1e-42, 1e-37])
def test_rows_of_tiny_numbers_are_zero_in_int8(tiny, folder, tmp_path, capfd):
    place = variant(folder, tmp_path / "model", edited({WEIGHT: torch.full((64, 32), tiny)})(folder))
    none = variant(folder, tmp_path / "none", edited({WEIGHT: torch.zeros(64, 32)})(folder))
    model, other = (engines.load_with(path, "cpu", precision="int8", engine="ctranslate2") for path in (place, none))
    assert texts(model) == texts(other)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "settings",
    [
        {"model__stem__width": 16},
        {"model__stem__width": 1 << 20},
        {"model__encoder__width": 64},
        {"model__decoder__width": 16},
        {"model__encoder__heads": 5},
        {"model__decoder__heads": 64},
        {"model__encoder__layers": 3},
        {"model__decoder__layers": 1},
        {"model__decoder__layers": 1 << 20},
        {"model__encoder__feed_forward": 1 << 20},
        {"model__decoder__position": {"kind": "learned", "length": 1 << 20}},
        {"model__encoder__norm": "both"},
        {"model__encoder__bias": False},
        {"model__stem__window": 3},
        {"model__decoder__memory_width": 16},
        {"model__share": False},
        {"model__unknown": 1},
        {"data__max_length": 0},
        {"decoding__length_extra": -1},
    ],
    ids=str,
)
def test_hostile_recipes_get_the_error_that_torch_gives(settings, folder, tmp_path):
    place = variant(folder, tmp_path / "model", **settings)
    assert refusal(lambda: loaded(place, "auto")) == refusal(lambda: load(place, "cpu"))
    refusal(lambda: loaded(place, "ctranslate2"))


@pytest.mark.parametrize(
    "settings",
    [
        {"model__encoder__heads": 2},
        {"model__decoder__heads": 8},
        {"model__stem__scale": False},
        {"model__encoder__activation": "gelu"},
        {"data__max_length": 5},
        {"data__max_length": 1 << 17},
        {"decoding__length_factor": 1000.0},
        {"model__stem__word_dropout": 0.5},
        {"model__decoder__attention": {"kind": "multi_head", "heads": 2}},
    ],
    ids=str,
)
def test_unusual_recipes_get_the_answer_that_torch_gives(settings, folder, tmp_path):
    place = variant(folder, tmp_path / "model", **settings)
    assert texts(loaded(place, "auto")) == texts(load(place, "cpu"))


def test_a_damaged_tokenizer(folder, tmp_path):
    origin = read_folder(folder)
    files: dict[str, bytes] = {name: origin.file(name).read_bytes() for name in origin.names}
    for name in files:
        if name.startswith("tokenizer"):
            files[name] = b"\n{" + files[name][:50]
    write_folder(tmp_path / "model", files)
    assert refusal(lambda: loaded(tmp_path / "model", "auto")) == refusal(lambda: load(tmp_path / "model", "cpu"))
    refusal(lambda: loaded(tmp_path / "model", "ctranslate2"))
