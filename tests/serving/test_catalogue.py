"""The catalogue: which languages a server translates between, and with which models."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from serving.calling import call
from serving.fakes import FakePool, fake_app
from serving.multilingual import write_multilingual

from regard.errors import UserError
from regard.languages import NAMES
from regard.serving.catalogue import Catalogue, Route, ServedModel, name_of, read_catalogue, read_models

MANY = sorted(NAMES)[:202]


def one(source: str, target: str) -> ServedModel:
    return ServedModel(f"{source}-{target}", Path("a"), "translate", source, target)


def several(name: str, **targets: str) -> ServedModel:
    """`several("m", de="en fr")` translates from German to English and French."""
    return ServedModel(
        name, Path(name), "translate", directions={source: tuple(all.split()) for source, all in targets.items()}
    )


def way(route: Route) -> list[tuple[str, str, str]]:
    return [(step.model.name, step.source, step.target) for step in route]


def test_the_first_model_with_the_direction_is_used() -> None:
    known = Catalogue([one("de", "en"), several("m", de="en fr", fr="de en")])
    assert way(known.route("de", "en")) == [("de-en", "de", "en")]
    assert way(known.route("fr", "en")) == [("m", "fr", "en")]
    assert known.route("fr", "en")[0].direction() == ("fr", "en")
    assert known.route("de", "en")[0].direction() == (None, None)
    assert known.languages() == ["de", "en", "fr"] and known.sources() == ["de", "fr"]
    assert known.targets("de") == ["de", "en", "fr"] and known.targets("en") == ["en"] and known.targets("zz") == []


def test_where_no_model_translates_directly_two_do() -> None:
    known = Catalogue([one("de", "en"), one("en", "fr"), one("fr", "it")])
    assert way(known.route("de", "fr")) == [("de-en", "de", "en"), ("en-fr", "en", "fr")]
    assert name_of(known.route("de", "fr")) == "de-en+en-fr"
    assert not known.route("de", "it"), "never three"
    assert not known.route("fr", "de") and not known.route("de", "de")
    assert known.targets("de") == ["de", "en", "fr"] and known.targets("en") == ["en", "fr", "it"]


def test_a_direct_model_comes_before_a_chain_and_english_before_other_middles() -> None:
    around = [one("de", "es"), one("es", "fr"), one("de", "en"), one("en", "fr")]
    assert name_of(Catalogue(around).route("de", "fr")) == "de-en+en-fr"
    assert name_of(Catalogue([*around, one("de", "fr")]).route("de", "fr")) == "de-fr"
    assert name_of(Catalogue([one("de", "it"), one("it", "fr"), *around[:2]]).route("de", "fr")) == "de-es+es-fr"


def test_a_way_back_to_where_it_began_is_no_chain() -> None:
    known = Catalogue([one("de", "en"), one("en", "de")])
    assert not known.route("de", "de") and known.targets("de") == ["de", "en"]


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        ("de", "it", "the model m does not translate from 'de' to 'it'; there is: en, fr"),
        ("xx", "en", "the model m does not translate from 'xx'; there is: de, fr"),
        ("de", "", "the model m translates between several languages: name source and target"),
    ],
)
def test_a_direction_that_a_model_lacks_is_refused_in_one_line(source: str, target: str, said: str) -> None:
    with pytest.raises(UserError) as refused:
        several("m", de="en fr", fr="de").step(source, target)
    assert str(refused.value) == said


def test_what_goes_without_saying_is_filled_in() -> None:
    assert several("m", de="en fr", fr="de").step("fr").target == "de"
    assert several("m", en="de fr").step(target="fr").source == "en"
    assert one("de", "en").step() == (one("de", "en"), "de", "en")


def test_folders_say_their_directions(tmp_path: Path) -> None:
    folder = write_multilingual(tmp_path / "babel")
    (model,) = read_models(str(folder))
    assert model.multilingual and (model.source, model.target) == ("", "")
    assert model.directions["fa"] == ("de", "en", "fr") and len(model.directions) == 4
    known = read_catalogue([f"de-fa={folder}"])
    assert known.languages() == ["de", "fa"], "only the direction that was asked for"
    assert known.route("de", "fa")[0].direction() == ("de", "fa"), "which the model must be told"
    with pytest.raises(UserError, match="does not translate from 'de' to 'it'"):
        read_catalogue([f"de-it={folder}"])


def test_a_summary_says_how_many_languages_a_model_has() -> None:
    assert Catalogue([one("de", "en"), several("m", de="en fr", fr="de")]).summary() == "de-en, m (3 languages)"


def test_only_some_languages_of_a_model_are_offered(tmp_path: Path) -> None:
    folder = str(write_multilingual(tmp_path / "babel"))
    known = read_catalogue(["fr-en", folder], ("de", "fa"))
    assert list(known.models) == ["babel"] and known.languages() == ["de", "fa"]
    assert one("de", "en").between(["en", "de", "fr"]) and not one("de", "en").between(["de"])
    assert not several("m", de="en fr").between(["en", "fr"])


def test_forty_thousand_pairs_are_served_at_once() -> None:
    """Everything that depends on the number of pairs is computed when the server starts, and that takes no time."""
    pairs = {source: tuple(target for target in MANY if target != source) for source in MANY}
    odd = {code: tuple(MANY[number % 2 :: 2]) for number, code in enumerate(MANY)}  # needs looking for chains
    began = time.process_time()
    models = [ServedModel("all", Path("a"), "translate", directions=pairs), several("m", de="en", en="de")]
    app: Any = fake_app(FakePool(), Catalogue(models), metrics=True)
    Catalogue([ServedModel("odd", Path("b"), "translate", directions=odd)])
    assert time.process_time() - began < 3
    began = time.process_time()
    for _ in range(5):
        listed = call(app, "GET", "/languages").json()
        call(app, "GET", "/metrics")
        call(app, "GET", "/spec")
        call(app, "GET", "/api/models")
    assert time.process_time() - began < 1
    assert len(listed) == len(MANY) and sum(len(language["targets"]) for language in listed) == len(MANY) ** 2
