"""Letter n-grams: against a spelled-out sum, what they change in fastText's answer, and how a table is learnt."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from zlib import crc32

import numpy as np
import pytest

from regard import language_identification
from regard.errors import UserError
from regard.language_identification import language_probabilities, likeliest, probabilities_among
from regard.language_ngrams import FILE, features, ngram_probabilities
from tools import language_ngrams as tool

FIVE = ("en", "fr", "de", "es", "fa")
WORDS = {
    "en": ["house", "thanks", "yesterday", "the", "weather", "enough"],
    "fr": ["maison", "merci", "aujourd'hui", "chat", "s'il vous plaît", "où"],
    "de": ["Haus", "danke", "gestern", "nicht", "Katze", "Straße"],
    "es": ["casa blanca", "gracias", "ayer", "perro", "mañana", "¿cuándo?"],
    "fa": ["خانه", "ممنون", "دیروز"],
}


def test_the_probabilities_are_the_softmax_of_a_sum_of_weights() -> None:
    header, _, raw = FILE.read_bytes().partition(b"\n")
    stated = json.loads(header)
    weights = np.frombuffer(raw, np.int8).reshape(stated["rows"], len(stated["languages"])) * stated["scale"]
    grams = ["=<où>"] + [g for n in range(1, 6) for g in ("<où>"[i : i + n] for i in range(4 - n + 1))]
    rows = [crc32(gram.encode()) % stated["rows"] for gram in grams]
    assert sorted(rows) == sorted(features("Où ?", stated["rows"])) and len(rows) == 1 + 4 + 3 + 2 + 1
    scores = np.exp(weights[rows].sum(0) / math.sqrt(len(rows)))
    found = ngram_probabilities("OÙ 12")
    assert list(found) == stated["languages"]
    assert np.allclose(list(found.values()), scores / scores.sum(), atol=1e-9)
    assert ngram_probabilities("12 !") == {}
    assert "CC BY" in stated["source"] and FILE.stat().st_size < 300_000


@pytest.mark.parametrize(("language", "text"), [(code, text) for code in WORDS for text in WORDS[code]])
def test_single_words(language: str, text: str) -> None:
    found = probabilities_among(text, FIVE)
    assert likeliest(text, FIVE) == language == max(found, key=lambda code: found[code])
    assert sum(found.values()) == pytest.approx(1) and set(found) == set(FIVE)


def test_what_fasttext_gives_the_four_together_stays_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["thanks", "grazie mille", "dziękuję", "Ich bin hier"]
    found = [language_probabilities(text) for text in texts]
    monkeypatch.setattr(language_identification, "SHORT", 0)
    for new, old in zip(found, map(language_probabilities, texts), strict=True):
        four = FIVE[:4]
        assert sum(new[code] for code in four) == pytest.approx(sum(old.get(code, 0) for code in four), abs=1e-5)
        assert {code: new[code] for code in old if code not in four} == {c: old[c] for c in old if c not in four}
        assert new != old


def test_unknown_languages_and_texts_that_fasttext_finds_impossible() -> None:
    assert probabilities_among("Haus", ["xx"]) == {}
    with pytest.raises(UserError, match="could not be detected"):
        likeliest("Haus", ["xx"])
    assert sum(probabilities_among("gamebag", ["en", "fa"]).values()) == pytest.approx(1)


def test_neither_help_nor_an_import_reads_the_table() -> None:
    code = "import sys, regard; from regard.cli import build_app; build_app('translate'); print([m for m in sys.modules if 'language_ng' in m])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_table_is_learnt_from_pieces_of_lines(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("ROWS", 64), ("PIECES", 60), ("EPOCHS", 6), ("BATCH", 20)):
        monkeypatch.setattr(tool, name, value)
    chance = np.random.default_rng(0)
    lines = [["ab ba abba", "baab ab bb"], ["xy yx xyyx", "yyx xxy yx"]]
    weights, scale = tool.learn([tool.pieces_of(own, chance) for own in lines], chance)
    assert weights.shape == (64, 2) and weights.dtype == np.int8 and scale > 0
    for language, text in enumerate(("baba", "yxxy")):
        assert weights[list(features(text, 64))].sum(0, dtype=int).argmax() == language
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    assert sorted(tool.lines_of([str(tmp_path / "a.txt")], {"two"}, chance)) == ["one", "three"]
