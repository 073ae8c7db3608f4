"""Translating with a glossary: by both engines, with the model that ships with the package."""

from __future__ import annotations

from typing import Any

import pytest

import regard
from regard.data.tokenizer._base import Tokenizer
from regard.decoding.constraints import Start
from regard.engines import unfit
from regard.glossary import Form, Glossary, Wanted
from regard.task._terms import TermEncoder

TERMS = Glossary.of(
    [
        ("étudiant", "scholar|undergraduate"),
        ("chien", "hound"),
        ("maison", "dwelling"),
        ("voiture", "automobile", "prefer"),
        ("pluie", "zzyzx", "prefer"),
    ]
)
WITH_TERMS = [
    "Je suis étudiant.",
    "Le chien dort dans la maison.",
    "J'ai vu un chien et un autre chien.",
    "Chien et maison, maison et chien !",
    "LE CHIEN DORT.",
]
WITHOUT = ["Nous irons demain.", "Il fait froid ce matin.", ""]


@pytest.fixture(scope="module", params=["torch", "ctranslate2"])
def translator(request: pytest.FixtureRequest) -> Any:
    if request.param == "ctranslate2" and (why := unfit()):
        pytest.skip(why)
    return regard.load("fr-en", "cpu", engine=request.param)


def test_every_obligatory_term_appears_and_other_sentences_do_not_change(translator: Any) -> None:
    texts = [text for pair in zip(WITH_TERMS, [*WITHOUT, *WITHOUT]) for text in pair]
    free = translator.translate(texts, alignment=True)
    found = translator.translate(texts, glossary=TERMS, alignment=True)
    for text, before, after in zip(texts, free, found, strict=True):
        wanted = TERMS.wanted(text)
        assert all(one.is_in(after.text) for one in wanted), after.text
        assert after.finished
        if not wanted:
            assert after == before
        elif after.text != before.text:
            assert max(target for _, target in after.alignment) < len(after.text.split())


def test_a_sentence_alone_is_as_in_a_batch(translator: Any) -> None:
    together = translator.translate(WITH_TERMS[:2], glossary=TERMS)
    assert [translator.translate(text, glossary=TERMS).text for text in WITH_TERMS[:2]] == [
        one.text for one in together
    ]


def test_a_score_is_that_of_the_model(translator: Any) -> None:
    found = translator.translate(WITH_TERMS[0], glossary=TERMS)
    assert found.text == "I'm a scholar."
    torch = translator if translator.engine == "torch" else translator.with_torch()
    loss = torch.loss([(WITH_TERMS[0], found.text)])
    assert found.log_probability == pytest.approx(-loss * (len(found.tokens) + 1), rel=0.02)


def test_a_preferred_term_is_taken_only_if_the_model_can_say_it(translator: Any) -> None:
    assert "zzyzx" not in translator.translate("La pluie tombe.", glossary=TERMS).text.lower()
    assert translator.translate("Il a acheté une voiture rouge.", glossary=TERMS).text == "He bought a red automobile."


def test_a_term_that_attention_cannot_place_gets_a_constrained_search(
    translator: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regard.task._term_placement import TermPlacement

    monkeypatch.setattr(TermPlacement, "_round", lambda self, sentences: None)
    found = translator.translate(WITH_TERMS[1], glossary=TERMS)
    assert found.finished and all(one.is_in(found.text) for one in TERMS.wanted(WITH_TERMS[1]))


def test_terms_as_tokens(translator: Any) -> None:
    tokenizer: Tokenizer = translator.tokenizer.target
    encoder = TermEncoder(tokenizer)
    made = encoder.encode(Wanted((Form("dog"), Form("Dog", at_start=True))))
    assert made is not None
    starts = {tokenizer.decode([*form.tokens]): set() for form in made.forms}  # type: ignore[var-annotated]
    for form in made.forms:
        starts[tokenizer.decode([*form.tokens])].add(form.start)
    assert Start.ANYWHERE in starts["dog"] and Start.AT_WORD in starts["dog"]
    assert starts["Dog"] <= {Start.AT_SENTENCE, Start.AT_TEXT}
    for before, text, whole in (("the", "dog", "the dog"), ("l'", "or", "l'or"), ("", "Dog", "Dog")):
        ids = tokenizer.encode(before)
        assert tokenizer.decode([*ids, *encoder.after(ids, text)]) == whole
