"""The text translator with a pool that answers in upper case: reassembled texts, and the model that is used."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from serving.fakes import FakePool, catalogue

from regard.serving.catalogue import Catalogue, ServedModel
from regard.serving.settings import Settings
from regard.serving.text.translator import TextTranslator, TranslatedTexts, TranslationRequest, UnsupportedLanguage
from regard.serving.workers.translation_result import SearchOptions, TranslationResult


def answered(
    asked: TranslationRequest, pool: FakePool | None = None, known: Catalogue | None = None
) -> TranslatedTexts:
    return asyncio.run(TextTranslator(Settings(), known or catalogue(), pool or FakePool()).translate(asked))


def test_paragraphs_lists_and_what_is_no_word_stay_where_they_were() -> None:
    text = "  Un.  Deux !\r\n\r\n- trois\n\t* quatre 😀\n\n\n42\nhttps://example.org/A?b=C\n"
    assert answered(TranslationRequest([text], "fr", "en")).texts == [
        "  UN.  DEUX !\r\n\r\n- TROIS\n\t* QUATRE 😀\n\n\n42\nhttps://example.org/A?b=C\n"
    ]


def test_all_sentences_of_all_texts_are_asked_for_together_and_each_once() -> None:
    pool = FakePool()
    found = answered(TranslationRequest(["Un chat. Un chien.", "Un chat.", ""], "fr", "en"), pool)
    assert found.texts == ["UN CHAT. UN CHIEN.", "UN CHAT.", ""]
    assert [asked[1] for asked in pool.calls] == [["Un chat.", "Un chien."]]


def test_alternatives_of_a_text_are_those_of_its_sentences() -> None:
    found = answered(TranslationRequest(["Un chat. Un chien.", "42"], "fr", "en", alternatives=2))
    assert found.alternatives == [["UN CHAT. (1) UN CHIEN. (1)", "UN CHAT. (2) UN CHIEN. (2)"], []]


def test_into_its_own_language_a_text_is_unchanged_and_nobody_is_asked() -> None:
    pool = FakePool()
    assert answered(TranslationRequest(["Un."], "fr", "fr", alternatives=3), pool) == TranslatedTexts(["Un."], [[]])
    assert not pool.calls


def test_languages_that_are_not_there_are_named() -> None:
    known = Catalogue(
        [ServedModel("a", Path("a"), "translate", "de", "en"), ServedModel("b", Path("b"), "translate", "en", "es")]
    )
    for source, target, said in [
        ("zz", "en", "zz is not supported"),
        ("de", "zz", "zz is not supported"),
        ("es", "de", "German (de) is not available as a target language from Spanish (es)"),
        ("auto", "zz", "fr is not supported"),
    ]:
        with pytest.raises(UnsupportedLanguage) as refused:
            answered(
                TranslationRequest(["Je voudrais une tasse de café, s'il vous plaît."], source, target), known=known
            )
        assert str(refused.value) == said


def test_a_detected_language_that_is_not_there_leaves_the_text_as_it_is() -> None:
    pool = FakePool()
    found = answered(TranslationRequest(["これは日本語のテキストです。"], "auto", "en", alternatives=2), pool)
    assert found.texts == ["これは日本語のテキストです。"] and found.alternatives == [[]] and not pool.calls
    assert found.detected and found.detected[0] == "ja"


class Silent(FakePool):
    """Answers nothing to some sentences."""

    async def translate(
        self, model: str, sentences: list[str], how: SearchOptions, owner: str = ""
    ) -> list[TranslationResult]:
        found = await super().translate(model, sentences, how, owner)
        for one in [each for best in found for each in (best, *best.alternatives) if "CHIEN" in each.text]:
            one.text = " "
        return found


def test_a_sentence_is_never_lost() -> None:
    request = TranslationRequest(["Un chat. Un chien.", "Un chien."], "fr", "en", alternatives=1)
    found = answered(request, Silent())
    assert found.texts == ["UN CHAT. Un chien.", "Un chien."]


def test_a_language_that_is_detected_is_said_with_its_confidence() -> None:
    found = answered(TranslationRequest(["Je voudrais une tasse de café."], "auto", "en"))
    assert found.texts == ["JE VOUDRAIS UNE TASSE DE CAFÉ."]
    assert found.detected and found.detected[0] == "fr" and found.detected[1] > 80
    same = answered(TranslationRequest(["I would like a cup of coffee."], "auto", "en"))
    assert same.texts == ["I would like a cup of coffee."] and same.detected and same.detected[0] == "en"


def test_sentences_in_other_languages_are_translated_from_those() -> None:
    known = Catalogue(
        [ServedModel("fr", Path("a"), "translate", "fr", "en"), ServedModel("de", Path("b"), "translate", "de", "en")]
    )
    pool = FakePool()
    french, german = "Je suis arrivé hier soir, il pleuvait.", "Leider haben wir den Zug verpasst."
    english = "Fortunately there was another one."
    text = f"{french}\n\n{german} {english}\n"
    found = answered(TranslationRequest([text, german], "auto", "en"), pool, known)
    assert found.texts == [f"{french.upper()}\n\n{german.upper()} {english}\n", german.upper()]
    assert sorted((call[0], call[1]) for call in pool.calls) == [("de", [german]), ("fr", [french])]
    assert found.detected is not None and found.detected[0] in ("fr", "de")
    pool = FakePool()
    assert answered(TranslationRequest([text], "fr", "en"), pool, known).texts == [text.upper()]
    assert {call[0] for call in pool.calls} == {"fr"}, "who states the source is believed"


def test_without_any_word_a_text_stays_whatever_the_languages_are() -> None:
    known = Catalogue([ServedModel("a", Path("a"), "translate", "de", "es")])
    assert answered(TranslationRequest(["😀 42 ..."], "auto", "es"), known=known).texts == ["😀 42 ..."]


def test_html_keeps_its_elements_and_asks_for_alignments_only_where_there_are_any() -> None:
    pool = FakePool()
    assert answered(TranslationRequest(['<p id="a">Un <b>chat</b> &amp; co.</p>'], "fr", "en", html=True), pool).texts
    assert pool.calls[0][2].alignment
    known = Catalogue([ServedModel("a", Path("a"), "translate", "fr", "en", aligns=False)])
    pool = FakePool()
    found = answered(TranslationRequest(['<p id="a">Un <b>chat</b></p>'], "fr", "en", html=True), pool, known)
    assert found.texts == ['<p id="a">UN <b>CHAT</b></p>'] and not pool.calls[0][2].alignment


class Forgetful(FakePool):
    """Loses URLs and numbers unless they are alone or replaced by placeholders."""

    async def translate(
        self, model: str, sentences: list[str], how: SearchOptions, owner: str = ""
    ) -> list[TranslationResult]:
        found = await super().translate(model, sentences, how, owner)
        for one in [each for best in found for each in (best, *best.alternatives)]:
            one.text = " ".join(word for word in one.text.split() if not any(map(str.isdigit, word)))
        return found


def test_what_must_come_through_comes_through_a_model_that_loses_it() -> None:
    text = "Voir https://example.org/12 avant le 14 mai 2031."
    (found,) = answered(TranslationRequest([text], "fr", "en"), Forgetful()).texts
    assert all(kept in found for kept in ("https://example.org/12", "14", "2031", "VOIR", "MAI"))
