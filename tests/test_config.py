"""Recipes: what is refused and how, precedence of overrides, and saving and loading."""

from __future__ import annotations

import dataclasses
import os
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config import (
    PRESETS,
    Data,
    Decoding,
    Recipe,
    Training,
    apply_overrides,
    read_recipe,
    recipe_from_dict,
    recipe_from_toml,
    shipped_recipes,
    to_toml,
)
from regard.errors import UserError


def refusal(action, *arguments) -> str:
    with pytest.raises(UserError) as caught:
        action(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Reading


def test_a_short_recipe_leaves_the_rest_at_its_defaults():
    recipe = recipe_from_toml(
        'task = "translate"\n[training]\nsteps = 7\n[model]\npreset = "tiny"\nencoder.layers = 8\n'
    )
    assert recipe == dataclasses.replace(
        Recipe(), training=Training(steps=7), model={"preset": "tiny", "encoder": {"layers": 8}}
    )


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"training": {"step": 200}}, "training: no key 'step'; did you mean 'steps'?"),
        ({"trainin": {}}, "recipe: no key 'trainin'; did you mean 'training'?"),
        ({"data": {"sources": ["a"]}}, "data: no key 'sources'; did you mean 'source'?"),
        ({"training": {"steps": "many"}}, "training.steps: wants a whole number of at least 1, given 'many'"),
        ({"training": {"steps": 1.5}}, "training.steps: wants a whole number of at least 1, given 1.5"),
        ({"training": {"steps": True}}, "training.steps: wants a whole number of at least 1, given true"),
        ({"training": {"learning_rate": "fast"}}, "training.learning_rate: wants a number from 0 to 10, given 'fast'"),
        ({"training": {"learning_rate": False}}, "training.learning_rate: wants a number from 0 to 10, given false"),
        ({"training": {"schedule": 3}}, "training.schedule: wants text or a table of keys, given 3"),
        ({"data": {"drop_duplicates": 1}}, "data.drop_duplicates: wants true or false, given 1"),
        ({"data": {"source": [1]}}, "data.source: wants a list of texts, given [1]"),
        ({"training": 3}, "training: wants a table of keys, given 3"),
        ({"model": "big"}, "model: wants a table of keys, given 'big'"),
        ({"training": {"clip": float("nan")}}, "training.clip: wants a number of at least 0, given nan"),
        ({"model": {"dropout": float("inf")}}, "model.dropout: wants a number of at least 0 and below 1, given inf"),
        ({"seed": 2**64}, "seed: a whole number of 65 bits is too large"),
        ({"name": "\udce9"}, "name: '\\udce9' is not valid Unicode text"),
        ({"model": {"x": None}}, "model.x: None is not text, a number, true, false, a list or a table"),
    ],
)
def test_mistakes_are_named_with_key_wanted_and_given(tree, message):
    assert refusal(recipe_from_dict, tree) == message


def test_an_int_serves_as_a_float_and_one_text_as_a_list():
    recipe = recipe_from_dict({"training": {"learning_rate": 1}, "data": {"source": "a.fr"}})
    assert recipe.training.learning_rate == 1.0 and type(recipe.training.learning_rate) is float
    assert recipe.data.source == ["a.fr"]


def test_from_is_the_key_of_start_from():
    assert recipe_from_dict({"training": {"from": "runs/one"}}).training.start_from == "runs/one"
    assert "no key 'start_from'" in refusal(recipe_from_dict, {"training": {"start_from": "x"}})
    assert '\nfrom = ""\n' in to_toml(Recipe())


def test_a_recipe_does_not_share_what_it_was_made_of():
    tree = {"model": {"encoder": {"layers": 2}}}
    recipe = recipe_from_dict(tree)
    recipe.model["encoder"]["layers"] = 3
    assert tree == {"model": {"encoder": {"layers": 2}}}


# Overrides


def test_overrides_win_and_leave_the_recipe_alone():
    recipe = recipe_from_toml("[training]\nsteps = 7\n[model]\nlayers = 2\n")
    before = to_toml(recipe)
    changed = apply_overrides(
        recipe,
        [
            "training.steps=200",
            "model.layers=4",
            "model.encoder.layers = 8",
            "training.learning_rate=3",
            "data.drop_duplicates=false",
            'data.source=["a.fr", "b.fr"]',
            "data.target=a.en",
            "training.from=runs/one",
            "name=2024",
            "model.norm=pre",
            "source_language=",
            'target_language="en"',
        ],
    )
    assert to_toml(recipe) == before
    assert changed.training.steps == 200 and changed.training.learning_rate == 3.0
    assert changed.model == {"layers": 4, "encoder": {"layers": 8}, "norm": "pre"}
    assert changed.data.drop_duplicates is False
    assert (changed.data.source, changed.data.target) == (["a.fr", "b.fr"], ["a.en"])
    assert (changed.training.start_from, changed.name) == ("runs/one", "2024")
    assert (changed.source_language, changed.target_language) == ("", "en")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.step=200", "training: no key 'step'; did you mean 'steps'?"),
        ("training.steps=many", "training.steps: wants a whole number of at least 1, given 'many'"),
        ("training.steps", "'training.steps' is not a setting; write key=value, for example training.steps=200"),
        ("=3", "'=3' is not a setting; write key=value, for example training.steps=200"),
        ("seed.x=3", "seed.x: 'seed' is a value and has no keys"),
        ("training=3", "training: wants a table of keys, given 3"),
        ("training.clip=nan", "training.clip: wants a number of at least 0, given nan"),
    ],
)
def test_bad_overrides(override, message):
    assert refusal(apply_overrides, Recipe(), [override]) == message


def test_an_override_is_one_value_whatever_it_contains():
    recipe = apply_overrides(Recipe(), ["model.a=1\nseed = 5", "model.b=2024-01-01", "model.c=[1, 2"])
    assert recipe.model == {"a": "1\nseed = 5", "b": "2024-01-01", "c": "[1, 2"}
    assert recipe.seed == 1


# Saving


values = st.recursive(
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1, max_size=5), inner, max_size=3),
    max_leaves=12,
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
keys = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


@settings(max_examples=40)
@given(
    st.dictionaries(keys, values, max_size=4),
    texts,
    st.lists(texts, max_size=3),
    st.floats(0, 10),
)
def test_what_is_saved_comes_back_the_same(model, name, source, rate):
    def valid(tree) -> bool:
        try:
            recipe_from_dict({"model": tree})
        except UserError:
            return False
        return True

    if not valid(model):  # lone surrogates in a nested key
        return
    recipe = Recipe(name=name, model=model, data=Data(source=source), training=Training(learning_rate=rate))
    again = recipe_from_toml(to_toml(recipe))
    assert again == recipe
    assert to_toml(again) == to_toml(recipe)


def test_what_is_saved_is_complete():
    tree = tomllib.loads(to_toml(Recipe()))
    for section, kind in (("data", Data), ("training", Training), ("decoding", Decoding)):
        names = {"from" if f.name == "start_from" else f.name for f in dataclasses.fields(kind)}
        assert set(tree[section]) == names
    assert set(tree) == {f.name for f in dataclasses.fields(Recipe)}


def test_a_recipe_that_could_not_be_read_again_is_not_written():
    assert "model.x" in refusal(to_toml, Recipe(model={"x": None}))
    recipe = Recipe()
    recipe.training.steps = 1.5  # type: ignore[assignment]
    assert "training.steps: wants a whole number" in refusal(to_toml, recipe)


# Files


def test_a_file_a_folder_and_a_byte_order_mark(tmp_path: Path):
    path = tmp_path / "recipe.toml"
    path.write_bytes(b"\xef\xbb\xbf" + 'name = "été"\r\n[training]\r\nsteps = 3\r\n'.encode())
    assert read_recipe(path).name == "été"
    assert read_recipe(str(path)) == read_recipe(tmp_path)


def test_messages_name_the_file(tmp_path: Path):
    path = tmp_path / "mine.toml"
    path.write_text("[training]\nstep = 3\n")
    assert refusal(read_recipe, path) == f"{path}: training: no key 'step'; did you mean 'steps'?"
    path.write_text("[training\n")
    assert refusal(read_recipe, path).startswith(f"{path}: not valid TOML: ")
    path.write_bytes(b'name = "\xe9"\n')
    assert refusal(read_recipe, path).startswith(f"{path}: not UTF-8 text: ")
    assert refusal(read_recipe, tmp_path / "mime.toml") == f"no recipe '{tmp_path}/mime.toml'; did you mean '{path}'?"


@pytest.mark.parametrize(
    "hostile",
    [
        "x = " + "[" * 100_000,
        "model." + ".".join("a" * 20_000) + " = 1",
        "seed = " + "9" * 10_000,
        "name = '" + "a" * (1 << 20) + "'",
        "\n".join(f"model.x{i}." + ".".join("a" * 98) + " = 1" for i in range(600)) + "\nbad",
    ],
    ids=["deep list", "deep table", "long number", "long file", "deep tables"],
)
@pytest.mark.timeout(5)
def test_hostile_files_are_refused_in_one_line(tmp_path: Path, hostile: str):
    path = tmp_path / "hostile.toml"
    path.write_text(hostile)
    assert len(refusal(read_recipe, path)) < 1000


@pytest.mark.timeout(5)
def test_only_regular_files_are_read(tmp_path: Path):
    os.mkfifo(tmp_path / "fifo.toml")
    (tmp_path / "device.toml").symlink_to("/dev/zero")
    for path in (tmp_path / "fifo.toml", tmp_path / "device.toml"):
        assert "not a regular file" in refusal(read_recipe, path)
    with (tmp_path / "sparse.toml").open("wb") as file:
        file.truncate(3 << 30)
    assert "larger than" in refusal(read_recipe, tmp_path / "sparse.toml")


COSTS_OF_USE = {
    "data.max_length": (1, 1 << 17),
    "training.batch_tokens": (1, 1 << 24),
    "training.batch_examples": (0, 1 << 20),
    "decoding.beam": (1, 1000),
    "decoding.max_length": (1, 10_000),
    "decoding.length_factor": (0, 1000),
    "decoding.length_extra": (0, 10_000),
    "decoding.batch_tokens": (1, 1 << 18),
}
"""A model may come from anybody, and these decide how much it takes when it is used."""


@pytest.mark.parametrize("key", COSTS_OF_USE)
def test_what_using_a_model_takes_is_limited(key: str):
    section, name = key.split(".")
    low, high = COSTS_OF_USE[key]
    for good in (low, high):
        recipe_from_dict({section: {name: good}})
    for bad in (low - 1, high + 1, 10**18):
        said = refusal(recipe_from_dict, {section: {name: bad}})
        assert said.startswith(f"{key}: wants a ") and f"from {low:,} to {high:,}, given " in said


def test_shipped_recipes_are_found_by_name(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, path in shipped_recipes().items():
        assert read_recipe(name) == read_recipe(path) == read_recipe(f"{name}.toml")
    assert set(shipped_recipes()) == {path.stem for path in (Path(__file__).parents[1] / "recipes").glob("*.toml")}
    assert refusal(read_recipe, "fr-em") == "no recipe 'fr-em'; did you mean 'fr-en'?"


def test_a_file_wins_over_a_shipped_name_only_when_it_exists(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in shipped_recipes():
        Path(name).write_text("seed = 99\n")
        assert read_recipe(name).seed == 99


def test_presets_are_those_of_the_paper_and_smaller():
    assert PRESETS["base"] == {"layers": 6, "width": 512, "feed_forward": 2048, "heads": 8, "dropout": 0.1}
    for preset in PRESETS.values():
        assert preset["width"] % preset["heads"] == 0
