"""Translation through further languages, in Python and on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from regard.chaining import Chain, Leg, route
from regard.cli.evaluate import evaluate
from regard.cli.inspect import inspect
from regard.cli.terminal import Format, Precision
from regard.cli.translate import translate
from regard.config import Recipe, recipe_from_dict
from regard.errors import UserError
from regard.glossary import Glossary
from regard.glossary_chain import follow
from regard.task._base_translator import BaseTranslator
from regard.task.translate import Translation
from regard.translation_memory import TranslationMemory
from tests import multilingual

TEXTS = ["das Haus ist schön", "Übung macht die Mädchen", "", "das ist 1984"]


def pair(source: str, target: str) -> Recipe:
    return recipe_from_dict({"task": "translate", "source_language": source, "target_language": target})


MANY = recipe_from_dict(
    {"task": "translate", "languages": {"source": ["de", "fr", "fa"], "target": ["de", "fr", "fa"]}}
)
EUROPE = [pair("de", "en"), pair("en", "fr"), pair("fr", "it"), pair("en", "it")]


@pytest.mark.parametrize(
    ("recipes", "asked", "legs"),
    [
        (EUROPE[:2], ("de", "fr"), [(0, "de", "en"), (1, "en", "fr")]),
        (EUROPE[:2], (None, None), [(0, "de", "en"), (1, "en", "fr")]),
        (EUROPE, ("de", "it"), [(0, "de", "en"), (3, "en", "it")]),
        (EUROPE, ("deu_Latn", "it", ["fr"]), [(0, "de", "en"), (1, "en", "fr"), (2, "fr", "it")]),
        (EUROPE, ("en", "fr"), [(1, "en", "fr")]),
        ([MANY], ("de", "fa"), [(0, "de", "fa")]),
        ([MANY], ("de", "fa", ["fr"]), [(0, "de", "fr"), (0, "fr", "fa")]),
        ([MANY], (None, "fa", ["fr"]), [(0, "", "fr"), (0, "fr", "fa")]),
        ([pair("en", "de"), MANY], ("en", "fa"), [(0, "en", "de"), (1, "de", "fa")]),
        ([recipe_from_dict({"task": "translate"})], (None, None), [(0, "", "")]),
    ],
)
def test_the_shortest_way(recipes: list[Recipe], asked: tuple[Any, ...], legs: list[tuple[int, str, str]]) -> None:
    assert route(recipes, *asked) == [Leg(*leg) for leg in legs]


@pytest.mark.parametrize(
    ("recipes", "asked", "message"),
    [
        ([], (), "a chain needs a model"),
        (EUROPE[:2], ("fr", "de"), "none of the models translates from 'fr'"),
        (EUROPE[:2], ("de", "es"), "none of the models translates to 'es'"),
        (EUROPE[:2], ("de", "fr", ["it"]), "none of the models translates to 'it'"),
        (
            [pair("de", "en"), pair("it", "fr")],
            ("de", "fr"),
            "no chain of these models translates from de (German) to fr",
        ),
        ([pair("de", "en"), pair("en", "de")], ("de", "de"), "no chain of these models"),
        (
            [pair("de", "en"), pair("fr", "en"), pair("en", "it")],
            (None, "it"),
            "say which with source (--from): de, fr",
        ),
        ([pair("de", "en"), pair("en", "it"), pair("en", "fr")], ("de", None), "say which with target (--to): fr, it"),
        (
            [pair("de", "en"), recipe_from_dict({"task": "translate"})],
            ("de", "fr"),
            "model 2 of the chain does not state",
        ),
        ([MANY], ("de", "de"), "does not translate from de (German) to de (German)"),
    ],
)
def test_no_way(recipes: list[Recipe], asked: tuple[Any, ...], message: str) -> None:
    with pytest.raises(UserError) as error:
        route(recipes, *asked)
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    place = tmp_path_factory.mktemp("models")
    keys: dict[str, dict[str, Any]] = {
        "de-fr": {"source_language": "de", "target_language": "fr"},
        "fr-fa": {"source_language": "fr", "target_language": "fa"},
        "many": {"languages": multilingual.many_to_many()},
    }
    made = {name: multilingual.make(place / name, seed=seed, **keys[name]) for seed, name in enumerate(keys)}
    return {name: str(path) for name, path in made.items()}


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_a_chain_is_one_after_the_other(engine: str, folders: dict[str, str]) -> None:
    one, other = (regard.load(folders[name], engine=engine, device="cpu") for name in ("de-fr", "fr-fa"))
    found = regard.chain(one, other, source="de", target="fa")
    assert isinstance(found, Chain) and found.engine == engine
    between = [each.text for each in one.translate(TEXTS, beam=2)]
    wanted = other.translate(between, n_best=2, beam=2)
    got = found.translate(TEXTS, n_best=2, beam=2)
    assert [each.text for each in got] == [each.text for each in wanted]
    assert [each.score for each in got] == [each.score for each in wanted]
    assert [len(each.alternatives) for each in got] == [len(each.alternatives) for each in wanted]
    assert [each.source for each in got] == TEXTS
    assert all(other.source == each.source for each in got for other in each.alternatives)
    assert found.translate(TEXTS[0], beam=2).text == got[0].text
    first = one.translate(TEXTS[0], alignment=True, beam=1)
    second = other.translate(first.text, alignment=True, beam=1)
    both = found.translate(TEXTS[0], alignment=True, beam=1)
    assert both.attention is not None and first.attention is not None and second.attention is not None
    np.testing.assert_allclose(both.attention, second.attention @ first.attention, rtol=1e-5)
    assert first.alignment and second.alignment and both.alignment
    linked = {
        (s, t)
        for s in range(9)
        for t in range(99)
        for m in range(99)
        if (s, m) in first.alignment and (m, t) in second.alignment
    }
    assert set(both.alignment) == linked
    assert found.translate("", alignment=True).text == ""
    with pytest.raises(UserError, match=r"this chain translates to fa \(Persian\), not to fr"):
        found.translate(TEXTS, target="fr")


def test_one_model_in_both_steps(folders: dict[str, str]) -> None:
    model = regard.load(folders["many"], engine="torch", device="cpu")
    found = regard.chain(folders["many"], target="fa", via="fr", device="cpu", engine="torch")
    between = [each.text for each in model.translate(TEXTS, target="fr")]
    wanted = [each.text for each in model.translate(between, source="fr", target="fa")]
    assert [each.text for each in found.translate(TEXTS)] == wanted
    assert len(found.translators) == 2 and found.translators[0] is found.translators[1]
    with pytest.raises(UserError, match="memory needs one model"):
        found.translate(TEXTS, memory=TranslationMemory([("a", "b")]))
    with pytest.raises(UserError, match="made to classify, not to translate"):
        regard.chain("fashion", folders["many"], source="de", target="fa")


class WordByWord(BaseTranslator):
    """Translates by a dictionary, and remembers what it was asked."""

    engine = "torch"

    def __init__(self, recipe: Recipe, words: dict[str, str]) -> None:
        self.recipe, self.words = recipe, words
        self.asked: list[dict[str, Any]] = []

    def translate(self, texts: list[str], **options: Any) -> list[Translation]:
        self.asked.append(options)
        found = [Translation(one, " ".join(self.words.get(word, word) for word in one.split())) for one in texts]
        for one in found if options.get("alignment") else ():
            one.attention = np.eye(len(one.source.split()), dtype=np.float32)
        return found


WordByWord.__abstractmethods__ = frozenset()  # a chain needs nothing else of a translator


def test_the_terms_of_a_glossary_are_followed_to_the_last_translation() -> None:
    first = WordByWord(EUROPE[0], {"der": "the", "Hund": "dog", "schläft": "sleeps"})
    last = WordByWord(EUROPE[1], {"the": "le", "dog": "chien", "sleeps": "dort"})
    found = Chain([Leg(0, "de", "en"), Leg(1, "en", "fr")], [first, last])
    terms = Glossary.of([("Hund|Hunde", "clébard|toutou"), ("schläft", "roupille", "prefer"), ("Haus", "maison")])
    made = found.translate(["der Hund schläft", "der Hund", "oui"], glossary=terms)
    assert [one.text for one in made] == ["le chien dort", "le chien", "oui"] and made[0].source == "der Hund schläft"
    assert first.asked[0]["glossary"] is None and first.asked[0]["alignment"]
    assert [one.rows() for one in last.asked[0]["glossary"]] == [
        [("dog", "clébard|toutou", "must"), ("sleeps", "roupille", "prefer")],
        [("dog", "clébard|toutou", "must")],
        [],
    ]
    found.translate("oui", glossary=terms)
    assert not first.asked[-1]["alignment"], "nothing to follow"


@pytest.mark.slow
def test_a_term_through_a_third_language() -> None:
    found = regard.chain("five-languages", source="fr", target="de", via="en", device="cpu")
    texts = ["Le chien dort sous la table.", "Elle lit un livre."]
    free, made = found.translate(texts), found.translate(texts, glossary=Glossary.of([("chien", "Köter")]))
    assert [one.text for one in made] == [free[0].text.replace("Hund", "Köter"), free[1].text]


def test_a_term_is_what_attends_to_it() -> None:
    weights = np.array([[0.6, 0.3, 0.1], [0.1, 0.6, 0.3], [0.1, 0.7, 0.2], [0, 0.1, 0.9]], np.float32)
    step = Translation("Le chien, dort", "The big dog, sleeps", attention=weights)
    terms = Glossary.of([("chien", "hound|Hund"), ("dort", "schläft", "prefer"), ("chat", "cat")])
    assert follow(terms, step).rows() == [("dog", "hound|Hund", "must"), ("sleeps", "schläft", "prefer")]
    two = Translation("Le chien", "the puppy dog", attention=np.array([[0.4, 0.6], [0.2, 0.8], [0, 1]], np.float32))
    assert follow(terms, two).rows() == [("puppy dog", "hound|Hund", "must")], "without the article"
    assert follow(terms, Translation("Le chien", "", attention=np.zeros((0, 2), np.float32))).rows() == []


def printed(capfd: pytest.CaptureFixture[str], texts: list[str], **options: Any) -> list[str]:
    translate(texts, quiet=True, precision=Precision.float32, **options)
    return capfd.readouterr().out.splitlines()


def test_languages_on_the_command_line(folders: dict[str, str], capfd: pytest.CaptureFixture[str]) -> None:
    model = regard.load(folders["many"], device="cpu")
    wanted = [one.text for one in model.translate(TEXTS, source="de", target="fr")]
    assert printed(capfd, TEXTS, model=[folders["many"]], from_="de", to="fra_Latn") == wanted
    detected = [one.text for one in model.translate(TEXTS, target="fr")]
    assert printed(capfd, TEXTS, model=[folders["many"]], from_="auto", to="fr") == detected
    with pytest.raises(UserError, match="several languages; say which, by target or --to: de"):
        translate(TEXTS, model=[folders["many"]])
    with pytest.raises(UserError, match=r"does not translate to es \(Spanish\)"):
        translate(TEXTS, model=[folders["many"]], to="es")


def test_chains_on_the_command_line(folders: dict[str, str], capfd: pytest.CaptureFixture[str]) -> None:
    models = [folders["de-fr"], folders["fr-fa"]]
    wanted = [one.text for one in regard.chain(*models, device="cpu").translate(TEXTS)]
    assert printed(capfd, TEXTS, model=models, from_="de", to="fa") == wanted
    assert printed(capfd, TEXTS, model=models[::-1], from_="de", to="fa") == wanted  # in any order
    through = [one.text for one in regard.chain(folders["many"], source="de", target="fa", via="fr").translate(TEXTS)]
    assert printed(capfd, TEXTS, model=[folders["many"]], from_="de", to="fa", via=["fr"]) == through
    rows = [json.loads(row) for row in printed(capfd, TEXTS[:1], model=models, format=Format.json, n_best=2)]
    assert rows[0]["source"] == TEXTS[0] and len(rows[0]["alternatives"]) == 1
    rows = [row.split("\t") for row in printed(capfd, TEXTS, model=models, alignment=True)]
    assert [row[0] for row in rows] == wanted and rows[0][1].startswith("0-")


def test_a_corpus_belongs_to_its_languages(
    folders: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "in.txt", tmp_path / "out"
    file.write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
    asked: dict[str, Any] = {
        "model": [folders["many"]],
        "input": str(file),
        "output": out,
        "from_": "de",
        "quiet": True,
        "precision": Precision.float32,
    }
    translate(**asked, to="fa")
    wanted = printed(capfd, TEXTS, model=[folders["many"]], from_="de", to="fa")
    assert (out / "001-of-001.txt").read_text(encoding="utf-8").splitlines() == wanted
    translate(**asked, to="pes_Arab")  # the same language
    for change, message in [
        ({"to": "fr"}, "was started with to fa, not fr"),
        ({"to": "fa", "via": ["fr"]}, r"was started with via None, not \['fr'\]"),
        ({"to": "fa", "from_": None}, "was started with from de, not None"),
        ({"to": "fa", "model": [folders["de-fr"], folders["fr-fa"]]}, r"was started with model [0-9a-f]{16}, not [0-9a-f]{16}\+"),
    ]:  # fmt: skip
        with pytest.raises(UserError, match=message):
            translate(**{**asked, **change})


def test_evaluate_and_inspect(folders: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source, target = tmp_path / "a.de", tmp_path / "a.fr"
    source.write_text("das Haus\nÜbung\n", encoding="utf-8")
    model = regard.load(folders["many"], device="cpu")
    target.write_text(
        "".join(f"{one.text}\n" for one in model.translate(["das Haus", "Übung"], source="de", target="fr"))
    )
    evaluate(folders["many"], [str(source), str(target)], from_="de", to="fr", quiet=True)
    assert "BLEU" in capfd.readouterr().out
    scores = regard.evaluate(model, source, target, source="de", target="fr")
    assert scores["chrf"] == pytest.approx(100)
    with pytest.raises(UserError, match="several languages"):
        evaluate(folders["many"], [str(source), str(target)])
    inspect(folders["many"], "das Haus", tmp_path / "x.json", from_="de", to="fr", quiet=True)
    assert json.loads((tmp_path / "x.json").read_text())["source"]["tokens"][0] == "<2de>"
    with pytest.raises(UserError, match="several languages"):
        inspect(folders["many"], "das Haus", tmp_path / "x.json", quiet=True)
