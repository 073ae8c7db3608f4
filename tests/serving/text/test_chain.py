"""Two models one after the other, where none translates directly."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from serving.calling import call
from serving.fakes import FakePool, fake_app

from regard.errors import UserError
from regard.serving.catalogue import Catalogue, ServedModel
from regard.serving.settings import Settings
from regard.serving.text.chain import compose_links, translate_along
from regard.serving.text.translator import TextTranslator, TranslatedTexts, TranslationRequest
from regard.serving.workers.translation_result import SearchOptions, TranslationResult

MODELS = Catalogue(
    [
        ServedModel("de-en", Path("a"), "translate", "de", "en"),
        ServedModel("any", Path("b"), "translate", directions={"en": ("fr", "es")}),
    ]
)


class Turning(FakePool):
    """Each step reverses the words, in upper case; alternatives are numbered. Attention is all on the word itself."""

    async def translate(
        self, model: str, sentences: Sequence[str], search: SearchOptions, owner: str = ""
    ) -> list[TranslationResult]:
        found = await super().translate(model, sentences, search, owner)
        for one, sentence in zip(found, sentences):
            for each in (one, *one.alternatives):
                words = sentence.split()
                extra = each.text[len(sentence) :]  # " (1)"
                each.text = " ".join(reversed(words)) + extra
                count = len(words)
                if search.alignment:
                    each.alignment = [(n, count - 1 - n) for n in range(count)]
                if search.attention:
                    each.attention = np.eye(count)[::-1].tolist()
        return found


def answered(asked: TranslationRequest, pool: FakePool | None = None, known: Catalogue = MODELS) -> TranslatedTexts:
    return asyncio.run(TextTranslator(Settings(), known, pool or Turning()).translate(asked))


def test_both_steps_are_told_their_direction_and_alternatives_are_of_the_last() -> None:
    pool = Turning()
    found = answered(TranslationRequest(["Ein Hund bellt"], "de", "fr", alternatives=1), pool)
    assert found.texts == ["Ein Hund bellt"] and found.alternatives == [["Ein Hund bellt (1)"]]
    assert [(model, texts) for model, texts, _ in pool.calls] == [
        ("de-en", ["Ein Hund bellt"]),
        ("any", ["bellt Hund Ein"]),
    ]
    first, second = (search for *_, search in pool.calls)
    assert (first.source, first.target, first.n_best) == (None, None, 1)
    assert (second.source, second.target, second.n_best) == ("en", "fr", 2)


def test_what_must_come_through_comes_through_both_steps() -> None:
    text = "Siehe https://example.org/12 vor dem 14. Mai 2031 👍"
    (found,) = answered(TranslationRequest([text], "de", "fr"), FakePool()).texts
    assert all(kept in found for kept in ("https://example.org/12", "14", "2031", "👍"))


def test_tags_follow_their_words_through_both_alignments() -> None:
    html = "<p>Ein <b>kleiner</b> Hund bellt <i>laut</i></p>"
    assert answered(TranslationRequest([html], "de", "fr", html=True)).texts == [html], "turned twice"
    (direct,) = answered(TranslationRequest([html], "de", "en", html=True)).texts
    assert direct == "<p><i>laut</i> bellt Hund <b>kleiner</b> Ein</p>"


def test_if_one_step_cannot_align_the_texts_between_tags_are_separate() -> None:
    models = [ServedModel("de-en", Path("a"), "translate", "de", "en", aligns=False), MODELS.models["any"]]
    pool = Turning()
    answered(TranslationRequest(["Ein <b>kleiner Hund</b>"], "de", "fr", html=True), pool, Catalogue(models))
    assert [texts for _, texts, _ in pool.calls] == [["Ein", "kleiner Hund"], ["Ein", "Hund kleiner"]]
    assert not any(search.alignment for *_, search in pool.calls)


def test_links_are_composed_like_matrices() -> None:
    random = np.random.default_rng(1)
    first, second = (random.random((5, 6)) < 0.3), (random.random((6, 4)) < 0.3)
    links = [[(int(a), int(b)) for a, b in np.argwhere(matrix)] for matrix in (first, second)]
    expected = [(int(a), int(b)) for a, b in np.argwhere(first.astype(int) @ second.astype(int))]
    assert compose_links(*links) == expected
    assert compose_links(None, links[1]) is None and compose_links(links[0], None) is None


def test_details_of_a_chain() -> None:
    search = SearchOptions(n_best=2, alignment=True, attention=True)
    route = MODELS.route("de", "fr")
    (found,) = asyncio.run(translate_along(Turning(), route, ["ein hund bellt"], search))
    assert found.text == "ein hund bellt" and found.alternatives[0].text == "ein hund bellt (1)"
    assert found.alignment == [(0, 0), (1, 1), (2, 2)] and found.attention == np.eye(3).tolist()
    assert found.score == -0.5 and found.alternatives[0].score == -1.5, "of the second step"


def test_the_attention_of_a_chain_is_limited_too() -> None:
    text = "ein " * 400
    with pytest.raises(UserError, match="attention"):
        asyncio.run(translate_along(Turning(), MODELS.route("de", "fr"), [text], SearchOptions(attention=True)))


def test_our_own_api_names_both_models() -> None:
    app = fake_app(Turning(), MODELS)
    asked = {"text": "ein hund", "model": {"source": "de", "target": "fr"}, "alignment": True}
    reply = call(app, "POST", "/api/translate", **asked).json()
    assert reply["model"] == "de-en+any" and reply["answers"][0]["alignment"] == [[0, 0], [1, 1]]
    assert call(app, "POST", "/api/translate", **{**asked, "model": "", "source": "de", "target": "fr"}).json() == reply
    refused = call(app, "POST", "/api/translate", **{**asked, "model": "any"})
    assert refused.status == 400 and "name source and target" in refused.json()["error"]
    refused = call(app, "POST", "/api/translate", **{**asked, "model": "any", "source": "de", "target": "fr"})
    assert refused.json() == {"error": "the model any does not translate from 'de'; there is: en"}
    lacking = call(app, "POST", "/api/translate", text="a", model={"source": "fr", "target": "de"})
    assert lacking.status == 404


def test_languages_list_what_a_chain_reaches() -> None:
    app = fake_app(Turning(), MODELS)
    found = {language["code"]: language["targets"] for language in call(app, "GET", "/languages").json()}
    assert found == {"de": ["de", "en", "es", "fr"], "en": ["en", "es", "fr"], "es": ["es"], "fr": ["fr"]}
    targets = call(app, "GET", "/v2/languages", query="type=target").json()
    assert [one["language"] for one in targets] == ["EN-GB", "EN-US", "ES", "FR"]
    reply = call(app, "POST", "/v2/translate", text=["ein hund"], target_lang="FR", source_lang="DE")
    assert reply.json()["translations"][0]["text"] == "ein hund"
    listed = call(app, "GET", "/api/models").json()["models"][1]
    assert listed == {"name": "any", "task": "translate", "sources": ["en"], "targets": ["es", "fr"]}


def test_R14_a_client_that_leaves_cancels_the_second_step() -> None:
    pool = Turning(seconds=0.05)

    async def leave() -> None:
        request = TranslationRequest(["Ein Hund"], "de", "fr")
        running = asyncio.create_task(TextTranslator(Settings(), MODELS, pool).translate(request))
        while len(pool.calls) < 2:
            await asyncio.sleep(0.005)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(leave())
    assert pool.cancelled == 1 and pool.waiting == 0
