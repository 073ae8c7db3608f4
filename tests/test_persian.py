"""Persian, right to left: sentences, tokens, pictures and detection, all the way."""

from __future__ import annotations

import re
import unicodedata

import numpy as np
import pytest

from regard.data.normalise import normalise, plain
from regard.data.tokenizer.subword import Subword
from regard.data.tokenizer.word import Word
from regard.inspection.draw.heatmap import matrix_svg
from regard.inspection.draw.style import length
from regard.language_identification import identified, is_another_language, likeliest
from regard.task._sentence_boundaries import sentences
from regard.task._splitting import split_long
from regard.text.sentences import split_text

TEXT = "می‌روم. آیا می‌آیی؟ «بله، حتماً.» او گفت: نه؛ شاید فردا! ساعت ۱۲:۳۰ با ۳٫۵ دلار رسید."
PARTS = ["می‌روم.", "آیا می‌آیی؟", "«بله، حتماً.»", "او گفت: نه؛ شاید فردا!", "ساعت ۱۲:۳۰ با ۳٫۵ دلار رسید."]


def test_sentences_end_at_their_own_marks():
    assert sentences(TEXT) == PARTS
    assert [piece.text for piece in split_text(TEXT) if piece.translatable] == PARTS
    assert "".join(piece.text for piece in split_text(TEXT)) == TEXT
    assert sentences("یہ اچھا ہے۔ وہ گیا۔ کیا؟ ہاں") == ["یہ اچھا ہے۔", "وہ گیا۔", "کیا؟", "ہاں"], "U+06D4, of Urdu"
    assert sentences("آقای م. رضایی آمد. رفت.") == ["آقای م. رضایی آمد.", "رفت."], "an initial ends none"
    assert split_long("یک، دو؛ سه", lambda part: len(part) < 8) == ["یک،", "دو؛ سه"], (
        "at the clause nearest to the middle"
    )


@pytest.mark.parametrize(
    "tokenizer",
    [Subword.train([TEXT] * 3, seed=1, size=320, coverage=1.0), Word.train([TEXT], seed=1)],
    ids=["subword", "word"],
)
def test_joiners_digits_and_marks_survive(tokenizer):
    assert normalise(TEXT) == TEXT == plain(TEXT) and "\u200c" in TEXT
    assert tokenizer.decode(tokenizer.encode(TEXT)).replace(" ", "") == TEXT.replace(" ", "")
    if isinstance(tokenizer, Subword):
        assert tokenizer.decode(tokenizer.encode(TEXT)) == TEXT


def test_each_label_of_a_picture_is_isolated():
    """A picture's base direction is left to right; every word of Persian keeps its own."""
    source, target = ["من", "«کتاب»", "می‌خوانم؟", "Python"], ["I", "read", "(خوب)"]
    svg = matrix_svg(np.full((3, 4), 0.25), source, target)
    labels = re.findall(r"<text [^>]*>([^<]*)</text>", svg)
    for word in (*source, *target):
        backwards = any(unicodedata.bidirectional(letter) in ("R", "AL") for letter in word)
        assert (f"\u2068{word}\u2069" if backwards else word) in labels
    tooltips = re.findall(r"<title>([^<]*)</title>", svg)
    assert any(title.startswith("\u2068من\u2069 → \u2068(خوب)\u2069") for title in tooltips), tooltips[:3]
    assert svg.count("\u2068") == svg.count("\u2069")


def test_widths_of_labels():
    assert length("می‌خوانم") == length("میخوانم"), "joiners have no width"
    assert length("\ufffd\ufffd") > length("ab")


def test_it_is_detected():
    for text in ("سلام، حال شما چطور است؟", "این کتاب خوب است", TEXT, "من ۳ کتاب دارم (Python)"):
        assert identified(text) == "fa" == likeliest(text, ["de", "en", "es", "fa", "fr"])
        assert not is_another_language(text, "fa") and is_another_language(text, "en", "fr")
