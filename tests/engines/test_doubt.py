"""Confidences: the log-probabilities of finished texts are those of the model, by either engine, and asking for them
changes nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from engines.conftest import LINES, make_folder, sentences

import regard
from regard.checks import Finding
from regard.confidence.calibration import GENERIC, Calibration, Calibrations, Logistic
from regard.confidence.features import SENTENCE_FEATURES, WORD_FEATURES
from regard.engines.ctranslate2.translator import CTranslate2Translator
from regard.loading import export, load
from regard.storage import CALIBRATION
from regard.types import BEGIN, END


@pytest.fixture(scope="module")
def slow(folder):
    return load(folder, device="cpu")


@pytest.fixture
def fast(folder) -> CTranslate2Translator:
    return regard.load(folder, device="cpu", engine="ctranslate2")


@torch.no_grad()
def forced(slow, source: list[int], target: list[int], finished: bool) -> list[float]:
    """The log-probability of each token, one sentence at a time."""
    ids = torch.tensor([[*source, END]])
    logits = slow.model(ids, torch.ones_like(ids, dtype=torch.bool), torch.tensor([[BEGIN, *target]]))[0]
    wanted = torch.tensor([*target, END])[:, None]
    return logits.log_softmax(-1).gather(1, wanted)[: len(target) + finished, 0].tolist()


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_hypothesis_log_probs_are_the_models_own(engine: str, slow, folder) -> None:
    translator = regard.load(folder, device="cpu", engine=engine)
    sources = [translator.encode(text) for text in sentences(8)]
    found = translator.search(sources, beam=2, n_best=2)
    found[0][1] = replace(found[0][1], finished=False)  # cut off by a limit: END does not count
    told = list(translator.hypothesis_log_probs(sources, found, 40, None))
    pairs = [(source, one) for source, row in zip(sources, found) for one in row]
    assert len(told) == len(pairs) == 16
    for (source, one), scores in zip(pairs, told):
        assert scores == pytest.approx(forced(slow, source, one.ids, one.finished), abs=2e-4)
        if one.finished:
            assert sum(scores) == pytest.approx(one.log_probability, abs=2e-3)
    later = list(translator.hypothesis_log_probs(sources, found, 40, None, first=1))
    assert [len(one) for one in later] == [len(one) - 1 for one in told]


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_translations_are_the_same_with_and_without_doubt(engine: str, folder) -> None:
    translator = regard.load(folder, device="cpu", engine=engine)
    texts = [*LINES, "", " ".join(LINES)]
    options = {"beam": 2, "n_best": 2, "alignment": True}
    watched, plain = translator.translate(texts, doubt=True, **options), translator.translate(texts, **options)
    for one, other in zip(watched, plain):
        same = [
            replace(each, confidence=None, words=[], warnings=[], alternatives=[]) for each in (one, *one.alternatives)
        ]
        assert same == [replace(each, alternatives=[]) for each in (other, *other.alternatives)]
        assert other.confidence is None and other.words == []
    words = [(one.text, [one.text[w.start : w.end] for w in one.words]) for one in watched]
    assert all(text.translate(str.maketrans("", "", ".,?!")).split() == found for text, found in words)
    assert all(0 < each.confidence < 1 for one in watched if one.source for each in (one, *one.alternatives))
    assert watched[-2].confidence is None and watched[-1].words


def test_engines_agree(fast, slow) -> None:
    texts = sentences(6)
    for one, other in zip(fast.translate(texts, beam=1, doubt=True), slow.translate(texts, beam=1, doubt=True)):
        assert one.text == other.text and one.confidence == pytest.approx(other.confidence, abs=1e-3)
        assert [w.confidence for w in one.words] == pytest.approx([w.confidence for w in other.words], abs=2e-3)


def test_a_cancelled_text_has_no_confidence(fast, slow) -> None:
    for translator in (fast, slow):
        first, second = translator.translate(LINES[:2], doubt=True, cancelled=lambda: (0,))
        assert first.confidence is None and first.words == [] and second.confidence is not None


def test_warnings_come_with_doubt(slow) -> None:
    (found,) = slow.translate(["je suis étudiant. 2019 1234"], doubt=True, beam=1)
    assert all(isinstance(one, Finding) for one in found.warnings)
    assert any(one.check == "numbers" for one in found.warnings)


def test_a_models_own_calibration_is_used_and_exported(tmp_path) -> None:
    place = make_folder(tmp_path / "tiny")
    sure = Calibration(Logistic((0.0,) * len(WORD_FEATURES), 9.0), Logistic((0.0,) * len(SENTENCE_FEATURES), 9.0), 5)
    text = LINES[2]
    assert Calibrations.read(place).for_direction("fr", "en") is GENERIC
    (place / CALIBRATION).write_bytes(Calibrations().with_one("fr", "en", sure).to_json())
    copy = export(place, tmp_path / "copy", "float32")
    for folder, engine in ((place, "ctranslate2"), (copy, "torch")):
        found = regard.load(folder, "cpu", engine=engine).translate(text, doubt=True)
        assert {round(one.confidence, 3) for one in found.words} == {1.0} == {round(found.confidence, 3)}
