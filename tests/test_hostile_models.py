"""Untrusted model folders are refused in one line, quickly and in little memory."""

from __future__ import annotations

import copy
import random
import resource
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from regard import loading, registry
from regard.config import Recipe, read_recipe, tiny_form
from regard.encoder._base import Encoder
from regard.errors import UserError
from regard.loading import MAX_BUFFERS, read_model
from regard.pretrained import shipped_models
from regard.runs import resolve
from regard.setting import all_keys
from regard.storage import Folder, read_folder, write_folder
from regard.toml_text import toml_text
from regard.types import Memory
from regard.weights import save_tensors, save_weights
from tests.training.toys import run_child

HOSTILE = (0, -1, 10**5, 10**9, 10**18)


def small_files(name: str) -> dict[str, bytes]:
    folder = read_folder(shipped_models()[name])
    return {file: folder.read(file) for file in folder.names if not file.endswith(".safetensors")}


def changed(name: str, recipe: dict[str, Any], files: dict[str, bytes]) -> Folder:
    """A shipped model with another recipe, as if its manifest had been made anew."""
    text = toml_text(recipe)
    place = shipped_models()[name]
    return Folder(place, (*files, "weights.safetensors"), "", {**files, "recipe.toml": text.encode()})


def integers(tree: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from integers(value, (*path, key))
        elif type(value) is int:
            yield (*path, key)


def put(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    tree = copy.deepcopy(tree)
    node = tree
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return tree


def hostile_settings(tree: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], int]]:
    """Every integer that decides the size of a model or the cost of its use, with absurd values."""
    declared = dict(all_keys(Recipe))
    for path in integers(tree):
        for value in HOSTILE:
            if path[0] == "model":
                hostile = not (
                    path[-1] in ("embedding", "head_width") and value == 0
                )  # which means: as the rest has it
            else:
                key = declared.get(".".join(path))
                hostile = key is not None and not key.setting.allows(value)
            if hostile:
                yield path, value


def refusal(folder: Folder) -> str:
    with pytest.raises(UserError) as refused:
        read_model(folder)
    message = str(refused.value)
    assert "\n" not in message and len(message) < 500
    return message


@pytest.mark.parametrize("name", shipped_models())
def test_hostile_numbers_in_a_recipe_are_refused_at_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    files = small_files(name)
    tree = tomllib.loads(files["recipe.toml"].decode())
    _, codec, _ = read_model(changed(name, tree, files))  # what they are variations of is good, and all is imported
    monkeypatch.setattr(loading, "read_codec", lambda recipe, folder: codec)  # which takes most of the time
    count = 0
    for path, value in hostile_settings(tree):
        folder, began = changed(name, put(tree, path, value), files), time.process_time()
        refusal(folder)
        assert time.process_time() - began < 2, (path, value)
        count += 1
    assert count > 20
    assert torch.is_grad_enabled()  # construction that is cut short leaves no mode of torch behind


def measure_hostile_recipes() -> None:
    """In a process of its own, with its own peak memory and without type checks."""
    files = small_files("fr-en")
    tree = tomllib.loads(files["recipe.toml"].decode())
    read_model(changed("fr-en", tree, files))
    held, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    for path in (("model", "encoder", "layers"), ("model", "decoder", "layers"), ("model", "encoder", "feed_forward")):
        for value in (10**5, 2**20):
            try:
                read_model(changed("fr-en", put(tree, path, value), files))
            except UserError:
                continue
            raise SystemExit(3)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held
    raise SystemExit(0 if grown < 150_000 and time.process_time() - began < 6 else 1)


def test_hostile_recipes_take_little_memory() -> None:
    assert run_child(measure_hostile_recipes) == 0


# ------------------------------------------------------------------------------------------ parts of other packages


class ManyLayers(Encoder):
    """An encoder of another package: many layers, and a computed table."""

    def __init__(self, width: int = 8, depth: int = 1, table: int = 1) -> None:
        super().__init__()
        self.width = width
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.register_buffer("table", torch.zeros(table, table))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> Memory:
        return Memory(x, mask)


class Point:
    def load(self) -> type[ManyLayers]:
        return ManyLayers


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"depth": 10**5}, "more layers than its weight file"),
        ({"table": 2**19}, f"{MAX_BUFFERS:,} are allowed"),
        ({"depth": 3}, "is missing"),
    ],
)
def test_parts_of_other_packages_are_bounded_too(
    settings: dict[str, int], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = registry._elsewhere
    monkeypatch.setattr(
        registry, "_elsewhere", lambda family: {"many": Point()} if family == "encoder" else elsewhere(family)
    )
    files = small_files("fashion")
    tree = tomllib.loads(files["recipe.toml"].decode())
    tree["model"]["encoder"] = {"kind": "many", "width": tree["model"]["stem"]["width"], "depth": 1, "table": 1}
    tree["model"]["encoder"] |= settings
    folder = changed("fashion", tree, files)
    weights = {k: v for k, v in read_folder(folder.path).weights().items() if not k.startswith("encoder.")}
    width = tree["model"]["encoder"]["width"]
    weights |= {"encoder.layers.0.weight": torch.zeros(width, width), "encoder.layers.0.bias": torch.zeros(width)}
    stored = {k: v.to("meta") for k, v in weights.items()}
    monkeypatch.setattr(Folder, "weights_on_meta", lambda self: stored)
    began = time.process_time()
    assert message in refusal(folder)
    assert time.process_time() - began < 2


# ------------------------------------------------------------------------------------------------- weights and text


@pytest.fixture
def fashion(tmp_path: Path) -> Iterator[Any]:
    """Writes the smallest shipped model with some of its files changed, and reads it."""
    files = small_files("fashion")
    weights = (shipped_models()["fashion"] / "weights.safetensors").read_bytes()

    def write(**others: bytes) -> Folder:
        named = {name.replace("_", "."): content for name, content in others.items()}
        write_folder(tmp_path / "model", {**files, "weights.safetensors": weights, **named})
        return read_folder(tmp_path / "model")

    yield write


def test_weights_of_another_type_are_refused_by_name(fashion: Any) -> None:
    weights = fashion().weights()
    name = next(iter(weights))
    stored = save_tensors({**weights, name: weights[name].to(torch.int64)})
    assert f"weight '{name}' holds int64 instead of floating-point numbers" in refusal(
        fashion(weights_safetensors=stored)
    )


def test_shapes_are_compared_before_weights_are_read(fashion: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = fashion().weights()
    name = next(iter(weights))
    folder = fashion(weights_safetensors=save_weights({**weights, name: torch.zeros(3, 5)}))
    monkeypatch.setattr(Folder, "weights", lambda self: pytest.fail("read"))
    assert f"weight '{name}' has shape (3, 5)" in refusal(folder)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("recipe_toml", b'name = "\xe9"\n'),
        ("recipe_toml", b"\xff\xfe\x00"),
        ("labels_json", b"\xff"),
        ("labels_json", b"[" * 100_000),
        ("labels_json", b"{}"),
        ("labels_json", b'{"names": 3}'),
        ("labels_json", b'{"names": [[]]}'),
        ("input_json", b"[" * 100_000),
        ("input_json", b'{"kind": "image", "size": 1e999}'),
        ("input_json", b"null"),
    ],
)
def test_text_that_cannot_be_understood_is_one_line(file: str, content: bytes, fashion: Any) -> None:
    refusal(fashion(**{file: content}))


MODEL = b'task = "classify"\n[model]\nkind = "classifier"\n'


@pytest.mark.parametrize(
    "section",
    [
        b"[model.encoder]\nkind = []\n",
        b"encoder = 3\n",
        b"stem = [1]\n",
        b"preset = {}\n",
        b'[model.stem]\nkind = "patches"\nposition = {kind = "learned", length = -1}\n',
        b'[model.stem]\nkind = "patches"\nposition = {kind = "learned", length = "x"}\n',
        b'[model.stem]\nkind = "patches"\nposition = {kind = "learned", width = 3}\n',
        b'[model.stem]\nkind = "patches"\nposition = {kind = "learned", family = "x"}\n',
        b'[model.stem]\nkind = "patches"\nposition = {kind = 3}\n',
        b'[model.stem]\nkind = "patches"\npatch = 0\n',
    ],
)
def test_a_model_section_of_the_wrong_types_is_one_line(section: bytes, fashion: Any) -> None:
    refusal(fashion(recipe_toml=MODEL + section))


@pytest.mark.parametrize("model", [{"encoder": 3}, {"preset": ["tiny"]}, {"kind": 3}, {"stem": {"kind": ["tokens"]}}])
def test_nor_does_training_take_them(model: dict[str, Any]) -> None:
    recipe = tiny_form(read_recipe("fr-en"))
    recipe.model = model
    with pytest.raises(UserError, match="model"):
        resolve(recipe)


# -------------------------------------------------------------------------------------------------------------- fuzz

PIECES = [
    b"0",
    b"-1",
    b"9" * 19,
    b"1e9",
    b"[",
    b"]",
    b"{",
    b"}",
    b'"',
    b"\n",
    b"=",
    b".",
    b"\xff",
    b"\x00",
    b"true",
    b"''",
]


def mutated(content: bytes, chance: random.Random) -> bytes:
    made = bytearray(content)
    for _ in range(chance.randint(1, 3)):
        at, kind = chance.randrange(len(made) + 1), chance.randrange(6)
        if kind == 0 and made:
            made[at % len(made)] ^= 1 << chance.randrange(8)
        elif kind == 1:
            made[at:at] = chance.choice(PIECES)
        elif kind == 2:
            del made[at : at + chance.randint(1, 9)]
        elif kind == 3:  # a number becomes another one
            digits = [place for place, byte in enumerate(made[:5000]) if 48 <= byte < 58]
            if digits:
                place = chance.choice(digits)
                made[place : place + 1] = chance.choice([b"0", b"-1", b"99", b"1048576", b"9" * 18, b"1.5", b'"x"'])
        elif kind == 4:
            other = chance.randrange(len(made) + 1)
            made[at : at + 20] = made[other : other + 20]
        else:
            made = made[:at]
    return bytes(made)


@pytest.mark.parametrize("count", [200, pytest.param(5000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["fashion", "shakespeare-lstm", "shapes", "fr-en-luong"])
def test_fuzzed_folders_load_or_are_refused_in_one_line(name: str, count: int, tmp_path: Path) -> None:
    """Recipe, tokenizer, labels, input and the header of the weights, mutated at random under a valid manifest."""
    count //= 4
    chance, files = random.Random(0), small_files(name)
    weights = (shipped_models()[name] / "weights.safetensors").read_bytes()
    length = 8 + int.from_bytes(weights[:8], "little")
    names = [file for file in (*files, "weights.safetensors") if file != "card.md"]
    refused = 0
    for number in range(count):
        file = names[number % len(names)]
        if file == "weights.safetensors":
            content = mutated(weights[:length], chance) + weights[length:]
        else:
            content = mutated(files[file], chance)
        write_folder(tmp_path / "model", {**files, "weights.safetensors": weights, file: content})
        began = time.process_time()
        try:
            read_model(read_folder(tmp_path / "model"))
        except UserError as error:
            assert "\n" not in str(error) and len(str(error)) < 1000
            refused += 1
        assert time.process_time() - began < 5, (file, content[:2000])
    assert refused > count / 5
    write_folder(tmp_path / "model", {**files, "weights.safetensors": weights})
    read_model(read_folder(tmp_path / "model"))
