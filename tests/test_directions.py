"""Translators with several languages: which direction is meant, how the model is told, and that nothing of it shows."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.config import Recipe, recipe_from_dict
from regard.directions import Marks, direction, directions, is_multilingual, marks, sources_for, with_end
from regard.errors import UserError
from regard.inspection.record.decoding_step import decoding_step
from regard.types import BEGIN, END
from regard.word_alignment import word_matrix
from tests import multilingual

LENGTH = 3
"""Of outputs that are compared token by token: longer ones of random weights repeat themselves, which a search forbids."""
TEXTS = ["das Haus ist schön", "Übung macht die Mädchen", "la maison", "کتاب خانه"]


def recipe(**keys: Any) -> Recipe:
    return recipe_from_dict({"task": "translate", **keys})


MANY = recipe(languages=multilingual.many_to_many())
ONE = recipe(source_language="fr", target_language="en")
NLLB = recipe(
    languages={"source": ["deu_Latn", "zho_Hans", "zho_Hant"], "target": ["deu_Latn", "zho_Hans", "zho_Hant"]}
)
T5 = recipe(
    languages={
        "source": ["en"],
        "target": ["de", "fr"],
        "prefixes": {"en-de": "translate English to German: ", "en-fr": "translate English to French: "},
    }
)
INTO_ENGLISH = recipe(languages={"source": ["de", "fr"], "target": ["en"]})


def test_directions() -> None:
    assert directions(ONE) == [("fr", "en")] and not is_multilingual(ONE)
    assert directions(recipe()) == [] and not is_multilingual(recipe())
    assert len(directions(MANY)) == 6 and is_multilingual(MANY) and ("de", "de") not in directions(MANY)
    assert directions(T5) == [("en", "de"), ("en", "fr")]
    assert directions(NLLB)[:2] == [("de", "zh"), ("de", "zt")]
    assert sources_for(MANY, "fr") == ("de", "fa") and sources_for(MANY, "xx") == ()


@pytest.mark.parametrize(
    ("of", "source", "target", "found"),
    [
        (ONE, None, None, ("fr", "en")),
        (ONE, "fra_Latn", "EN", ("fr", "en")),
        (recipe(), "de", "fr", ("de", "fr")),
        (recipe(), None, None, ("", "")),
        (recipe(source_language="fr"), None, "en", ("fr", "en")),
        (MANY, "de_DE", "fra", ("de", "fr")),
        (MANY, None, "fr", ("", "fr")),
        (INTO_ENGLISH, None, None, ("", "en")),
        (INTO_ENGLISH, "de", None, ("de", "en")),
        (T5, None, "de", ("en", "de")),
        (NLLB, "zt", "zh-Hans", ("zt", "zh")),
    ],
)
def test_what_is_clear_is_filled_in(of: Recipe, source: str | None, target: str | None, found: tuple[str, str]) -> None:
    assert direction(of, source, target) == found


@pytest.mark.parametrize(
    ("of", "source", "target", "message"),
    [
        (ONE, "de", None, "does not translate from de (German); it translates from fr (French)"),
        (ONE, None, "fr", "does not translate to fr (French); it translates to en (English)"),
        (
            recipe(source_language="fr"),
            "de",
            None,
            "does not translate from de (German); it translates from fr (French)",
        ),
        (MANY, "de", None, "several languages; say which, by target or --to: fa (Persian), fr (French)"),
        (MANY, None, None, "several languages; say which, by target or --to: de (German), fa (Persian), fr (French)"),
        (
            MANY,
            "de",
            "de",
            "does not translate from de (German) to de (German); it translates to fa (Persian), fr (French)",
        ),
        (MANY, "xx", "fr", "does not translate from 'xx'; it translates from de (German), fa (Persian), fr (French)"),
        (T5, "de", "fr", "does not translate from de (German); it translates from en (English)"),
    ],
)
def test_refusals(of: Recipe, source: str | None, target: str | None, message: str) -> None:
    with pytest.raises(UserError) as error:
        direction(of, source, target)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_of_many_languages_the_nearest_are_named() -> None:
    codes = [
        "ar",
        "cs",
        "da",
        "de",
        "el",
        "en",
        "es",
        "fi",
        "fr",
        "he",
        "hu",
        "it",
        "ja",
        "ko",
        "nl",
        "nn",
        "nb",
        "pl",
        "pt",
        "ru",
        "sv",
        "uk",
        "zh",
    ]
    with pytest.raises(UserError, match=r"to no \(Norwegian\); did you mean .*nb \(Norwegian\)"):
        direction(recipe(languages={"source": codes, "target": codes}), "de", "no")
    with pytest.raises(UserError, match="and 11 more"):
        direction(recipe(languages={"source": codes, "target": codes}), "de", "qqq")


def test_many_directions_take_no_time() -> None:
    import time

    from regard.languages import NAMES

    many = recipe(languages={"source": list(NAMES), "target": list(NAMES)})
    direction(many, "de", "fr")
    started = time.process_time()
    for _ in range(100):
        assert direction(many, "de", "fr") == ("de", "fr")
    assert time.process_time() - started < 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return multilingual.make(tmp_path_factory.mktemp("many") / "model", languages=multilingual.many_to_many())


@pytest.fixture(scope="module")
def torch_model(folder: Path) -> Any:
    return regard.load(folder, engine="torch", device="cpu")


@pytest.fixture(scope="module", params=["torch", "ctranslate2"])
def translator(request: pytest.FixtureRequest, folder: Path, torch_model: Any) -> Any:
    return torch_model if request.param == "torch" else regard.load(folder, engine="ctranslate2", device="cpu")


def test_marks(torch_model: Any) -> None:
    of = torch_model.tokenizer.id_of
    told = marks(torch_model.recipe, torch_model.tokenizer, "de", "fr")
    assert told == Marks("", (of("<2de>"),), (), (of("<2fr>"),))
    assert torch_model.encode("Haus", told) == [of("<2de>"), *torch_model.tokenizer.encode("Haus")]
    for section, wanted in [
        ({"target_tag": "source", "source_tag": "none"}, Marks("", (of("<2fr>"),), (), ())),
        ({"target_tag": "none", "source_tag": "after"}, Marks("", (), (END, of("<2de>")), ())),
        ({"target_tag": "none", "source_tag": "none", "prefixes": {"de-fr": "to French: "}}, Marks("to French: ")),
    ]:
        made = recipe(languages=multilingual.many_to_many(**section))
        assert marks(made, torch_model.tokenizer, "de", "fr") == wanted
    missing = recipe(languages=multilingual.many_to_many(tags={"de": "<2de>", "fr": "<nothing>"}))
    with pytest.raises(UserError, match=r"no token '<nothing>' for fr \(French\)"):
        marks(missing, torch_model.tokenizer, "de", "fr")
    with pytest.raises(UserError, match=r"no tag for fa \(Persian\)"):
        marks(missing, torch_model.tokenizer, "fa", "de")


def test_with_end() -> None:
    assert with_end([7, 8]) == [7, 8, END] and with_end([7, END, 9]) == [7, END, 9]


@torch.no_grad()
def greedy(model: Any, source: list[int], start: list[int], length: int) -> list[int]:
    """The likeliest tokens one by one, computed from scratch each time."""
    written = list(start)
    while len(written) < length:
        ids = torch.tensor([source])
        logits = model.model(ids, torch.ones_like(ids, dtype=torch.bool), torch.tensor([[BEGIN, *written]]))[0, -1]
        logits[:3] = -math.inf
        token = int(logits.argmax())
        if token == END:
            break
        written.append(token)
    return written


@pytest.mark.parametrize(("source", "target"), [("de", "fr"), ("fr", "fa"), ("fa", "de")])
def test_the_model_is_told_both_languages(source: str, target: str, translator: Any, torch_model: Any) -> None:
    of, output = torch_model.tokenizer.id_of, torch_model.tokenizer.target
    found = translator.translate(TEXTS, source=source, target=target, beam=1, max_length=LENGTH)
    for text, one in zip(TEXTS, found, strict=True):
        ids = [of(f"<2{source}>"), *torch_model.tokenizer.encode(text), END]
        wanted = greedy(torch_model, ids, [of(f"<2{target}>")], LENGTH + 1)  # the tag does not count
        assert one.tokens == output.pieces(wanted[1:]) and one.text == output.decode(wanted[1:]).strip()
        assert len(one.tokens) == LENGTH or one.finished
    assert len({one.text for one in found}) > 1
    (third,) = {*multilingual.CODES} - {source, target}
    for other in ({"source": third, "target": target}, {"source": source, "target": third}):
        told = translator.translate(TEXTS, beam=1, max_length=LENGTH, **other)
        assert all(abs(one.score - another.score) > 1e-3 for one, another in zip(told, found, strict=True))


def test_tags_never_show(translator: Any) -> None:
    for one in translator.translate(TEXTS, source="de", target="fr", beam=3, n_best=3, alignment=True):
        for each in (one, *one.alternatives):
            assert "<2" not in each.text and not any(token in multilingual.TAGS.values() for token in each.tokens)
            assert each.attention is not None
            assert each.attention.shape == (len(each.text.split()), len(one.source.split()))


def test_alignment_is_that_of_the_words(torch_model: Any) -> None:
    (one,) = torch_model.translate(TEXTS[:1], source="de", target="fr", beam=1, alignment=True)
    tokenizer = torch_model.tokenizer
    source = [tokenizer.id_of("<2de>"), *tokenizer.encode(TEXTS[0])]
    written = [tokenizer.id_of("<2fr>"), *(tokenizer.target.id_of(token) for token in one.tokens)]
    (weights,) = torch_model.attention([(source, written)])
    words = tokenizer.target.word_index(written[1:])
    wanted = word_matrix(weights.numpy()[1:, 1:], words, tokenizer.word_index(source[1:]))
    np.testing.assert_allclose(one.attention, wanted, rtol=1e-6)


def test_the_source_is_detected_for_each_text(translator: Any) -> None:
    texts = ["das ist ein schönes Haus und wir sind Freunde", "این کتاب خیلی خوب است"]
    mixed = translator.translate(texts, target="fr", beam=1)
    apart = [translator.translate(text, source=code, target="fr", beam=1) for text, code in zip(texts, ("de", "fa"))]
    assert [one.text for one in mixed] == [one.text for one in apart]
    assert translator.translate(texts[1], target="fr", beam=1).text == apart[1].text
    assert translator.translate([], target="fr") == [] and translator.translate("", target="fr").text == ""


def test_a_missing_target_is_refused(translator: Any) -> None:
    with pytest.raises(UserError, match="several languages"):
        translator.translate("Haus")
    with pytest.raises(UserError, match=r"does not translate to es \(Spanish\)"):
        translator.translate("Haus", source="de", target="es")


def test_one_direction_accepts_its_languages_alone(tmp_path: Path) -> None:
    made = multilingual.make(tmp_path / "model", source_language="de", target_language="fr")
    one = regard.load(made, engine="torch", device="cpu")
    assert one.translate("Haus", source="de", target="fra_Latn").text == one.translate("Haus").text
    with pytest.raises(UserError, match=r"does not translate to de \(German\); it translates to fr \(French\)"):
        one.translate("Haus", target="de")


def test_inspecting(torch_model: Any) -> None:
    trace = torch_model.inspect("das Haus", source="de", target="fr", beam=1, max_length=LENGTH)
    translated = torch_model.translate("das Haus", source="de", target="fr", beam=1, max_length=LENGTH)
    assert trace.source.tokens[0] == "<2de>" and trace.source.word_of[0] == -1
    assert trace.target.tokens[0] == "<2fr>" == trace.read[1] and trace.target.word_of[0] == -1
    assert trace.given == 1 and trace.target.text == translated.text
    assert trace.word_matrix().shape == (len(trace.target.words), 2)
    assert trace.search
    for view in ("alignment", "heads", "steps", "beam"):
        assert "<svg" in trace.svg(view)
    assert trace.word_probabilities() and trace.json()
    with pytest.raises(UserError, match="several languages"):
        torch_model.inspect("das Haus")


def test_a_forced_beginning_follows_the_tag(torch_model: Any) -> None:
    tokenizer = torch_model.tokenizer
    first = tokenizer.target.encode("Haus")[:2]
    trace = torch_model.inspect("das Haus", source="de", target="fr", prefix=first, beam=1)
    assert trace.ids[:3] == [tokenizer.id_of("<2fr>"), *first]
    again = torch_model.inspect("das Haus", source="de", target="fr", prefix=trace.ids[:3], beam=1)
    assert again.ids == trace.ids  # a view sends back the ids it was shown
    (told,) = torch_model.marks(["das Haus"], "de", "fr")
    step = decoding_step(torch_model, "das Haus", first, told=told)
    assert step.alternatives[0].id == trace.ids[3] and len(step.probabilities) == 3


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_a_tag_after_the_source(engine: str, tmp_path: Path) -> None:
    """As mBART: text, END, tag; no further END."""
    section = multilingual.many_to_many(source_tag="after")
    model = regard.load(multilingual.make(tmp_path / "model", languages=section), engine=engine, device="cpu")
    tokenizer, text = model.tokenizer, "das Haus"
    found = model.translate(text, source="de", target="fr", beam=1, max_length=LENGTH, alignment=True)
    ids = [*tokenizer.encode(text), END, tokenizer.id_of("<2de>")]
    wanted = greedy(model if engine == "torch" else model.with_torch(), ids, [tokenizer.id_of("<2fr>")], LENGTH + 1)
    assert found.tokens == tokenizer.target.pieces(wanted[1:])
    assert found.attention is not None and found.attention.shape[1] == 2
    trace = model.inspect(text, source="de", target="fr", beam=1, max_length=LENGTH)
    assert trace.source.tokens[-2:] == ["</s>", "<2de>"] and max(trace.source.word_of) == 1


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_a_prefix_of_text(engine: str, tmp_path: Path) -> None:
    """As T5: the direction is said in words, which belong to no word of the text."""
    languages = {
        "source": ["de"],
        "target": ["fr", "fa"],
        "prefixes": {"de-fr": "Mädchen Haus: ", "de-fa": "über die Straße: "},
    }
    model = regard.load(multilingual.make(tmp_path / "model", languages=languages), engine=engine, device="cpu")
    found = model.translate("alte Übung", target="fr", beam=1, max_length=LENGTH, alignment=True)
    torch_one = model if engine == "torch" else model.with_torch()
    wanted = greedy(torch_one, [*torch_one.tokenizer.encode("Mädchen Haus: alte Übung"), END], [], LENGTH)
    assert found.tokens == torch_one.tokenizer.target.pieces(wanted)
    assert found.attention is not None and found.attention.shape[1] == 2
    if engine == "torch":
        assert max(model.inspect("alte Übung", target="fr").source.word_of) == 1


def test_long_texts_leave_room_for_tags(torch_model: Any) -> None:
    notes: list[str] = []
    text = "das Haus und die Straße " * 12
    torch_model.translate(text, source="de", target="fr", beam=1, max_length=2, warn=notes.append)
    (told,) = torch_model.marks([text], "de", "fr")
    parts = torch_model.parts(text, told=told)
    assert len(parts) > 1 and f"38 tokens and was split into {len(parts)} parts" in notes[0]
    assert max(len(with_end(torch_model.encode(part, told))) for part in parts) <= 40


def test_separate_vocabularies(tmp_path: Path) -> None:
    """The source's ids are the stem's, those of the output are the decoder's."""
    pytest.importorskip("regard.interchange.families", reason="assemble takes a source_vocabulary with the importers")
    made = multilingual.make(tmp_path / "model", separate=True, source_language="de", target_language="fr")
    model = regard.load(made, engine="torch", device="cpu")
    tokenizer = model.tokenizer
    found = model.translate("das Haus", beam=1, max_length=LENGTH, alignment=True)
    wanted = greedy(model, [*tokenizer.encode("das Haus"), END], [], LENGTH)
    assert found.tokens == tokenizer.target.pieces(wanted) and found.text == tokenizer.target.decode(wanted).strip()
    assert model.loss([("das Haus", "la maison")]) > 0
    assert model.inspect("das Haus", beam=1, max_length=LENGTH).target.tokens[:LENGTH] == found.tokens


def test_loss_has_the_tags(torch_model: Any, tmp_path: Path) -> None:
    """Of a model that is trained further on one direction."""
    made = multilingual.make(
        tmp_path / "model", languages=multilingual.many_to_many(), source_language="de", target_language="fr"
    )
    model = regard.load(made, engine="torch", device="cpu")
    of = model.tokenizer.id_of
    source = torch.tensor([[of("<2de>"), *model.tokenizer.encode("das Haus"), END]])
    target = [BEGIN, of("<2fr>"), *model.tokenizer.target.encode("la maison"), END]
    with torch.no_grad():
        logits = model.model(source, torch.ones_like(source, dtype=torch.bool), torch.tensor([target[:-1]]))[0]
    wanted = -logits.log_softmax(-1).gather(1, torch.tensor(target[1:])[:, None]).mean()
    assert model.loss([("das Haus", "la maison")]) == pytest.approx(float(wanted), rel=1e-4)


def test_questions_of_the_studio(torch_model: Any) -> None:
    from regard.studio.questions import continue_translation, decoding_step, translate

    asked = {"model": "many", "text": "das Haus", "source": "de", "target": "fr", "beam": 1}
    shown = translate.answer(torch_model, asked)
    assert shown["parts"] == ["das Haus"] and shown["source"]["word_of"][:2] == [-1, 0]
    assert len(shown["weights"]["words"][0]) == 2 and len(shown["weights"]["tokens"][0]) == len(
        shown["source"]["tokens"]
    )
    translated = torch_model.translate("das Haus", source="de", target="fr", beam=1)
    assert shown["target"]["text"] == translated.text
    first = torch_model.tokenizer.target.encode("Haus")[:1]
    told = {name: value for name, value in asked.items() if name != "beam"} | {"written": first}
    step = decoding_step.answer(torch_model, told)
    forced = continue_translation.answer(torch_model, told | {"beam": 1})
    assert step["written"] == ["<2fr>", *torch_model.tokenizer.target.pieces(first)] == forced["target"]["tokens"][:2]
    assert step["next"][0]["token"] == forced["target"]["tokens"][2] and forced["given"] == 2
    assert step["source"] == {name: value for name, value in forced["source"].items() if name in step["source"]}
    with pytest.raises(UserError, match="several languages"):
        translate.answer(torch_model, {"model": "many", "text": "das Haus"})


@pytest.mark.parametrize(
    "section",
    [
        {"source_tag": "before", "target_tag": "output"},
        {"source_tag": "after", "target_tag": "output"},
        {"source_tag": "none", "target_tag": "source"},
        {"source_tag": "none", "target_tag": "none", "prefixes": {"de-fr": "Haus: "}},
    ],
)
def test_training_text_has_the_tags(section: dict[str, Any], folder: Path, torch_model: Any, tmp_path: Path) -> None:
    """The batches that training sees are what a translator is given and what it should say."""
    from regard.task.translate import Translator

    pairs = [("das Haus ist schön", "la maison"), ("die Straße und das Haus", "été où le garçon")]
    files = [tmp_path / "a.de", tmp_path / "a.fr"]
    for side, file in enumerate(files):
        file.write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    made = recipe(
        languages=multilingual.many_to_many(**section),
        source_language="de",
        target_language="fr",
        data={
            "source": [str(files[0])],
            "target": [str(files[1])],
            "hold_out_valid": 0,
            "plain_source": False,
            "workers": 0,
        },
    )
    tokenizer = torch_model.tokenizer
    prepared = Translator.prepare(made, tmp_path, tokenizer.files(), True, lambda text: None)
    batch = next(iter(prepared.stream))
    told = marks(made, tokenizer, "de", "fr")
    encoder = Translator(made, tokenizer, torch_model.model, torch.device("cpu"))
    wanted = {tuple(with_end(encoder.encode(source, told))) for source, _ in pairs}
    assert {tuple(row[row != 0].tolist()) for row in batch.source} == wanted
    targets = {(BEGIN, *told.prefix, *tokenizer.target.encode(target), END) for _, target in pairs}
    assert {tuple(row[row != 0].tolist()) for row in batch.target} == targets


def test_training_text_is_in_one_direction(torch_model: Any, tmp_path: Path) -> None:
    from regard.task.translate import Translator

    file = tmp_path / "a.de"
    file.write_text("das Haus\n", encoding="utf-8")
    data = {"source": [str(file)], "target": [str(file)], "hold_out_valid": 0}
    for languages, message in (
        ({}, "several languages"),
        ({"target_language": "fr"}, "say which the text is in, with --from"),
    ):
        made = recipe(languages=multilingual.many_to_many(), data=data, **languages)
        with pytest.raises(UserError, match=message):
            Translator.prepare(made, tmp_path, torch_model.tokenizer.files(), True, lambda text: None)
