"""The map of a model agrees with the model that is built: every layer, head, width and parameter (and its picture)."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

from regard.assemble import EXAMPLE_SIZES, build_model, resolve_model
from regard.config import read_recipe, tiny_form
from regard.inspection.draw.model_map import draw_map
from regard.inspection.trace.base import CROSS, SOURCE, TARGET, plain
from regard.inspection.trace.model_map import ModelMap, map_of_folder, model_map
from regard.layers.attention._base import Attention
from regard.layers.cell._base import Cell
from regard.layers.feed_forward import FeedForward
from regard.layers.halting import Halting
from regard.layers.residual import Residual
from regard.layers.ssru import SSRU
from regard.loading import Uninitialised, task_of
from regard.pretrained import shipped_models

RECIPES = sorted(path.stem for path in (Path(__file__).parents[2] / "recipes").glob("*.toml"))
KINDS = {"attention": Attention, "cell": Cell, "feed_forward": FeedForward, "halting": Halting, "ssru": SSRU}
SVG = "{http://www.w3.org/2000/svg}"


def built(tree: dict, **sizes: int) -> torch.nn.Module:
    with torch.device("meta"), Uninitialised():
        return build_model(tree, **{**EXAMPLE_SIZES, **sizes})


def check(found: ModelMap, model: torch.nn.Module) -> None:
    modules = dict(model.named_modules())
    blocks = list(found.walk())
    paths = [block.path for block in blocks]
    assert len(paths) == len(set(paths))

    # Every module of these kinds is a block, and every such block is a module, in the order of the model.
    for kind, module in KINDS.items():
        shown = [block.path for block in blocks if block.kind == kind]
        there = [path for path, one in modules.items() if isinstance(one, module)]
        outer = [path for path in there if path.rpartition(".")[0] not in there]  # local attention holds another one
        assert sorted(shown) == sorted(outer), kind
    residuals = [block.path for block in blocks if block.title == "Add & Norm"]
    assert sorted(residuals) == sorted(path for path, one in modules.items() if isinstance(one, Residual))

    for block in blocks:
        module = modules.get(block.path)
        if isinstance(module, Attention):
            assert block.heads == module.heads
            if getattr(module, "kv_heads", module.heads) != module.heads:
                assert f"{module.kv_heads} of keys and values" in block.detail
            kind = CROSS if block.path.endswith("cross_attention") else SOURCE if "encoder" in block.path else TARGET
            assert block.attention == kind and (block.layer is not None)
        elif isinstance(module, Cell):
            assert block.width == module.width
        elif isinstance(module, FeedForward):
            inner, width = module.inward.weight.shape
            assert block.width == width and block.detail.startswith(f"{width} → {inner} → {width}")
        elif block.kind == "embedding" and block.path.endswith("embedding"):
            words, width = module.table.weight.shape
            assert block.width == width and f"{words:,} tokens" in block.detail
    for home in ("encoder", "decoder"):
        stack = modules.get(f"{home}.layers")
        if isinstance(stack, torch.nn.ModuleList):
            layers = [block for block in blocks if block.kind == "layer" and block.path.startswith(f"{home}.layers")]
            assert [block.layer for block in layers] == list(range(len(stack)))
    if found.target and found.source:
        encoder = getattr(modules["encoder"], "width", 0) or modules["stem"].width
        assert found.memory == encoder
    if found.target:
        (output,) = (block for block in blocks if block.kind == "output")
        assert output.width == modules["decoder"].output_weight().shape[0]

    # Every parameter is counted once, in the block that holds it.
    total = sum(parameter.numel() for parameter in model.parameters())
    assert found.parameters == total == sum(block.parameters for block in [*found.source, *found.target])
    for block in blocks:
        if block.kind in (*KINDS, "norm") and block.path in modules:
            assert block.parameters == sum(one.numel() for one in modules[block.path].parameters()), block.path


@pytest.mark.parametrize("name", RECIPES)
def test_the_map_of_every_recipe_is_its_model(name: str):
    recipe = tiny_form(read_recipe(name))
    tree = resolve_model({**task_of(recipe).usual, **recipe.model})
    model = built(tree)
    shapes = {name: tuple(one.shape) for name, one in model.named_parameters()}
    check(model_map(tree, shapes, recipe.task), model)


@pytest.mark.parametrize("name", sorted(shipped_models()))
def test_the_map_of_every_shipped_model_is_read_from_its_files(name: str):
    folder = shipped_models()[name]
    recipe = read_recipe(folder)
    found = map_of_folder(folder, recipe.model, recipe.task)
    shapes = {key: one.shape for key, one in _weights(folder).items()}
    words = next((shape[0] for key, shape in shapes.items() if key.endswith("embedding.table.weight")), 8)
    sizes = {"vocabulary": words, "channels": 1, "size": 28, "labels": 10}
    if recipe.task == "caption":
        sizes |= {"channels": 3, "size": 64}
    model = built(recipe.model, **sizes)
    assert {key: tuple(one.shape) for key, one in model.named_parameters()} == {k: tuple(s) for k, s in shapes.items()}
    check(found, model)


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    from regard.weights import weights_on_meta

    return weights_on_meta(folder / "weights.safetensors")


@pytest.mark.parametrize(
    "model",
    [
        {"encoder": "recurrent", "decoder": "attentional"},
        {"encoder": {"kind": "recurrent", "direction": "forward", "layers": 2}, "decoder": "recurrent", "layers": 2},
        {"decoder": {"kind": "attentional", "order": "after", "layers": 2}, "encoder": "recurrent"},
        {"decoder": "ssru"},
        {"encoder": "universal", "decoder": "universal", "halting": False},
        {"norm": "pre", "norm_kind": "rms", "bias": False, "relative_position": "buckets"},
        {"head_width": 4, "heads": 2, "gated": True},
        {"attention": "additive"},
        {"heads": 4, "attention": {"kind": "multi_head", "kv_heads": 2}, "relative_position": "rotary"},
    ],
    ids=str,
)
def test_the_map_of_other_combinations(model: dict):
    tree = resolve_model({"preset": "tiny", "width": 16, **model})
    made = built(tree)
    shapes = {name: tuple(one.shape) for name, one in made.named_parameters()}
    found = model_map(tree, shapes, "translate")
    check(found, made)
    drawn = ElementTree.fromstring(draw_map(found, {SOURCE: ["a", "b"], TARGET: ["<s>"]}, ["c"]).svg())
    names = {one.get("data-at") for one in drawn.iter(f"{SVG}rect")}
    opened = [block for layer in [*found.source, *found.target] if layer.layer == 0 for block in layer.blocks]
    assert {f"block {block.path}" for block in [*found.source, *found.target, *opened]} <= names


def test_the_sizes_on_the_arrows_are_tokens_times_numbers():
    tree = resolve_model({"width": 16, "heads": 4, "feed_forward": 32, "layers": 2})
    made = built(tree, vocabulary=40)
    found = model_map(tree, {name: tuple(one.shape) for name, one in made.named_parameters()}, "translate")
    drawn = draw_map(found, {SOURCE: ["a", "b", "</s>"], TARGET: ["<s>", "c"]}, ["c", "</s>"], layer=1)
    texts = [one.text for one in ElementTree.fromstring(drawn.svg()).iter(f"{SVG}text")]
    assert {"3 tokens", "3 x 16", "2 tokens", "2 x 16", "2 x 40", "4 heads of 4", "16 → 32 → 16, relu"} <= set(texts)
    assert plain(found)["source"][0]["path"] == "stem.embedding"


def test_a_part_of_another_package_is_one_block():
    shapes = {"encoder.mixer.weight": (16, 16), "stem.embedding.table.weight": (9, 16), "head.weight": (2, 16)}
    tree = {"kind": "classifier", "stem": {"kind": "tokens", "width": 16}, "encoder": {"kind": "mixer", "width": 16}}
    found = model_map(tree, shapes, "classify")
    assert [block.title for block in found.source][1:3] == ["Mixer", "Pooling"]
    assert found.source[1].parameters == 256 and found.parameters == 256 + 9 * 16 + 32


def test_regard_inspect_writes_the_map(tmp_path: Path):
    import json

    from regard.cli.inspect import content
    from regard.inspection.inspect import inspect

    trace = inspect("fr-en-luong", "Je suis étudiant.")
    choice = {"layer": None, "head": None, "attention": "cross", "tokens": False, "position": None}
    svg = content(trace, ".svg", "map", choice).decode()
    assert "5 x 256" in svg and "multiplicative (Luong)" in svg and "LSTM, layer 1" in svg
    told = json.loads(content(trace, ".json", "map", choice))
    assert told["map"]["parameters"] == 3585024 and "attention" not in told
