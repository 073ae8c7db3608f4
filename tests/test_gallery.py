"""The models that ship with the package: complete, small, described, and good at their tasks."""

from __future__ import annotations

import json
import re
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from regard.config import read_recipe, shipped_recipes
from regard.data.format.made_shapes import COLOURS, RELATIONS, SHAPES, MadeShapes
from regard.data.samples import clothes, samples, shapes
from regard.pretrained import CARD, card_of, score_in, shipped_models
from regard.storage import CALIBRATION, read_folder

ROOT = Path(__file__).parents[1]
TRANSLATORS = ("fr-en-plain", "fr-en-bahdanau", "fr-en-luong", "fr-en-universal")
GALLERY = {
    **dict.fromkeys(TRANSLATORS, "translate"),
    "shakespeare": "generate",
    "shakespeare-lstm": "generate",
    "fashion": "classify",
    "shapes": "caption",
}
LICENCES = {"translate": "CC BY 2.0 FR", "generate": "public domain", "classify": "MIT", "caption": "Apache 2.0"}


@cache
def loaded(name: str) -> Any:
    return regard.load(name, device="cpu")


# What ships


def test_the_gallery_is_there_beside_the_translators_and_small():
    assert {name: read_recipe(folder).task for name, folder in shipped_models().items()} == {
        "fr-en": "translate",
        "five-languages": "translate",
        **GALLERY,
    }
    sizes = {name: sum(file.stat().st_size for file in folder.iterdir()) for name, folder in shipped_models().items()}
    assert sum(sizes[name] for name in GALLERY) < 25e6
    assert sizes["five-languages"] < 48e6 and sum(sizes.values()) < 90e6


@pytest.mark.parametrize("name", [*GALLERY, "fr-en", "five-languages"])
def test_a_model_is_whole_and_its_card_names_data_licence_score_and_recipe(name: str):
    folder = read_folder(shipped_models()[name])  # raises where a hash is not that of its file
    calibrated = {CALIBRATION} if name in ("fr-en", "five-languages") else set()
    assert {path.name for path in folder.path.iterdir()} == {*folder.names, CARD, "manifest.json", *calibrated}
    card = card_of(folder.path)
    assert card.startswith(f"# {name}\n") and max(map(len, card.splitlines())) <= 120
    for part in ("- Score: ", "- Size: ", "- Data: ", "- Made by: ", "- Trained: ", "- Measured: ", "Not good for: "):
        assert card.count(part) == 1, part
    assert LICENCES[read_recipe(folder.path).task] in " ".join(card.split())
    parameters = sum(weight.numel() for weight in folder.weights().values())
    assert f"{parameters:,} parameters" in card
    assert "europarl" not in card.lower() or name in ("fr-en", "five-languages")
    recipes = re.findall(r"`regard train (\S+)`", card)
    assert recipes and set(recipes) <= set(shipped_recipes())


@pytest.mark.parametrize("name", GALLERY)
def test_a_model_is_what_its_recipe_makes(name: str):
    """Its parts; the number of steps followed from the time limit where the card says so."""
    from regard.assemble import resolve_model
    from regard.loading import task_of

    recipe = read_recipe("gallery-" + name.removeprefix("fr-en-"))
    saved = read_recipe(shipped_models()[name])
    made = resolve_model({**task_of(recipe).usual, **recipe.model})
    assert made == resolve_model(saved.model)  # keys that came after it was saved have their defaults
    assert recipe.tokenizer.items() <= saved.tokenizer.items() and recipe.decoding == saved.decoding


def test_the_translators_have_one_vocabulary_of_4000():
    tokenizers = {(shipped_models()[name] / "tokenizer.model").read_bytes() for name in TRANSLATORS}
    assert len(tokenizers) == 1 and len(loaded("fr-en-luong").tokenizer) == 4000


def test_the_page_says_what_the_cards_say():
    rows = re.findall(
        r"^\| `([\w-]+)` \|.*\| ([\d,]+) \| ([\d.]+) \| ([\d.]+) ", (ROOT / "docs/gallery.md").read_text("utf-8"), re.M
    )
    assert {name for name, *_ in rows} == set(shipped_models())
    for name, parameters, size, score in rows:
        card, folder = card_of(shipped_models()[name]), shipped_models()[name]
        assert f"{parameters} parameters" in card and score_in(card).startswith(score)
        assert sum(file.stat().st_size for file in folder.iterdir()) / 1e6 == pytest.approx(float(size), abs=0.05)


def test_the_measured_scores_of_recipes_are_those_of_the_cards():
    measured = json.loads((ROOT / "recipes/measured.json").read_text("utf-8"))
    for name in GALLERY:
        told = measured["gallery-" + name.removeprefix("fr-en-")]
        assert score_in(card_of(shipped_models()[name])).startswith(f"{told['value']} ")


# What it does


@pytest.mark.parametrize("name", TRANSLATORS)
def test_the_translators_translate(name: str):
    said = [t.text for t in loaded(name).translate(["Je suis étudiant.", "Les enfants jouent dans le jardin."])]
    assert said[0] == "I'm a student."
    assert re.fullmatch(r"(The c|C)hildren (are playing|play) in the garden\.", said[1])


@pytest.mark.parametrize("name", ["fr-en-bahdanau", "fr-en-luong", "fr-en-universal"])
def test_attention_looks_at_the_word_that_is_translated(name: str):
    found = loaded(name).translate("Les enfants jouent dans le jardin avec leur chien noir.", alignment=True)
    source, target = found.source.split(), found.text.split()
    for word, original in (("garden", "jardin"), ("with", "avec"), ("their", "leur")):
        assert source[int(found.attention[target.index(word)].argmax())] == original


def test_the_universal_one_thinks_longer_about_some_words():
    task = loaded("fr-en-universal")
    with regard.capture(task.model) as seen:
        task.translate("Il y a deux ans, j'ai acheté une vieille maison.", beam=1)
    for part in ("encoder", "decoder"):
        times = np.concatenate([call.numpy().ravel() for call in seen[f"{part}.halting.ponder"]])
        assert times.min() < 3 and times.max() > 4.5


@pytest.mark.parametrize("name", ["shakespeare", "shakespeare-lstm"])
def test_the_plays_go_on_as_plays(name: str):
    task = loaded(name)
    speech = "KING RICHARD:\nMy lord, I know the man that did this deed,\nAnd he shall die before the sun is down.\n"
    assert task.score(speech).loss < 1.7 < 3 < task.score(speech[::-1]).loss
    written = task.generate("KING RICHARD", length=40, temperature=0.5, seed=3)
    assert len(str(written)) > 40


def test_the_clothes_are_recognised():
    task = loaded("fashion")
    wanted = ["T-shirt/top", "trouser", "dress", "sneaker", "bag", "ankle boot"]
    pictures = [task.pair.input.decode(png, name) for name, png in clothes().items()]
    assert [one.label for one in task.classify(pictures)] == wanted


def test_the_shapes_are_described_and_each_is_looked_at_for_its_name():
    task = loaded("shapes")
    made = MadeShapes(count=6, seed=13, size=64, colour=True, captions=True, shapes=2).read([], "samples")
    pictures = [task.pair.input.decode(png, name) for name, png in shapes().items()]
    assert all((picture == one.input).all() for picture, one in zip(pictures, made, strict=True))
    for picture, one, said in zip(pictures, made, task.caption(pictures), strict=True):
        assert said.text in one.target
        looked = task.attention(picture, said.ids).reshape(-1, 16, 16).numpy()
        words = said.text.split()
        for noun in (2, len(words) - 1):
            light = np.abs(picture.astype(int) - COLOURS[words[noun - 1]]).max(-1) <= 25  # where that colour is
            near = np.pad(light, 4).reshape(18, 4, 18, 4).any((1, 3))
            near = np.logical_or.reduce([near[1 + y : 17 + y, 1 + x : 17 + x] for y in (-1, 0, 1) for x in (-1, 0, 1)])
            assert looked[noun][near].sum() > 0.6, words


# Two shapes in a picture


@pytest.mark.parametrize("colour", [True, False])
def test_two_shapes_are_drawn_as_they_are_described(colour: bool):
    relations, compared = set(), 0
    for one in MadeShapes(count=200, size=40, colour=colour, captions=True, shapes=2).read([], "valid"):
        first, second = one.target
        relation = next(name for name in RELATIONS if f" {name} " in first)
        relations.add(relation)
        a, b = first.split(f" {relation} ")
        assert second == f"{b} {RELATIONS[relation][0]} {a}" and a != b
        assert {a.split()[-1], b.split()[-1]} <= SHAPES.keys()
        axis = 1 if relation in ("left of", "right of") else 0
        lit = (one.input.max(-1) > 130).any(1 - axis).nonzero()[0]
        gap = np.flatnonzero(np.diff(lit) > 1)
        assert len(gap) == 1  # apart: between them is a strip of noise
        if colour and a.split()[1] != b.split()[1]:
            place = {words: middle(one.input, COLOURS[words.split()[1]])[axis] for words in (a, b)}
            assert (place[a] < place[b]) == (relation in ("left of", "above"))
            compared += 1
    assert (compared > 100) == colour
    assert relations == set(RELATIONS)


def middle(picture: np.ndarray, colour: tuple[int, int, int]) -> np.ndarray:
    return np.argwhere(np.abs(picture.astype(int) - colour).max(-1) <= 25).mean(0)


def test_to_train_on_there_is_one_sentence_of_the_two():
    made = MadeShapes(count=50, captions=True, shapes=2).read([], "train")
    assert all(isinstance(one.target, str) for one in made)
    assert len({one.target for one in made}) > 20


@pytest.mark.parametrize("options", [{"shapes": 3, "captions": True}, {"shapes": 0}, {"shapes": 2}])
def test_shapes_that_cannot_be_drawn(options: dict[str, Any]):
    with pytest.raises(regard.errors.UserError, match="data.format.shapes: "):
        MadeShapes(**options)


def test_samples_are_pictures_the_package_makes():
    assert list(samples()) == [*(f"shapes-{n}" for n in range(1, 7)), *clothes()]
    assert all(png.startswith(b"\x89PNG") for png in samples().values())
    assert len(set(samples().values())) == 12


# `regard models`


@pytest.fixture
def run_models(run_regard):
    return partial(run_regard, "models")


def test_models_lists_what_is_installed_in_columns(run_models):
    header, *lines = run_models()[0].splitlines()
    assert header.split() == ["MODEL", "WHAT", "IT", "DOES", "SIZE", "SCORE"]
    assert [line.split()[0] for line in lines] == list(shipped_models())
    at = header.index("SCORE")
    for line in lines:
        assert line[at:].strip() == score_in(card_of(shipped_models()[line.split()[0]])) != ""
        assert re.search(r" \d+\.\d MB  $", line[:at])
    assert any("fr-en-luong" in line and "translate fr to en" in line for line in lines)


def test_models_shows_a_card(run_models):
    out = run_models("shapes")[0]
    assert out.startswith(card_of(shipped_models()["shapes"])) and str(shipped_models()["shapes"]) in out
    assert json.loads(run_models("shapes", "--format", "json")[0])["card"] == card_of(shipped_models()["shapes"])
    listed = json.loads(run_models("--format", "json")[0])
    assert [one["name"] for one in listed] == list(shipped_models())


def test_a_model_that_is_not_there_and_one_without_a_card(run_models, monkeypatch, tmp_path):
    assert run_models("fr-en-lung", code=2) == ("", "regard: no model 'fr-en-lung'; did you mean 'fr-en-luong'?\n")
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "recipe.toml").write_text('task = "tag"\n')
    monkeypatch.setattr("regard.pretrained.shipped_models", lambda: {"bare": tmp_path / "bare"})
    assert run_models()[0].splitlines()[1].split() == ["bare", "tag", "0.0", "MB", "-"]
    assert "there is no card" in run_models("bare")[0]
    monkeypatch.setattr("regard.pretrained.shipped_models", dict)
    assert "no models are shipped" in run_models()[0]


def test_the_default_translator_is_still_fr_en():
    from regard.serving.catalogue import read_catalogue
    from regard.serving.settings import Settings

    assert Settings().models == ("fr-en",)
    both = read_catalogue(list(shipped_models()))
    for pair, name in ((("fr", "en"), "fr-en"), (("de", "fa"), "five-languages")):
        (step,) = both.route(*pair)
        assert step.model.name == name, "the first that is named"
    assert len(regard.load(device="cpu").tokenizer) == 12000
