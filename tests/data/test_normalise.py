from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.normalise import normalise, plain

any_text = st.text(st.characters())  # surrogates too


@given(any_text)
def test_what_is_promised_of_any_text(text: str) -> None:
    result = normalise(text)
    assert normalise(result) == result
    assert unicodedata.is_normalized("NFC", result)
    assert result == " ".join(result.split(" ")) and result == result.strip()
    assert not any(character.isspace() and character != " " for character in result)
    assert not any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in result)
    result.encode()


@given(st.text(st.characters(categories=["L", "N", "P", "S"], exclude_characters="\u2581")))
def test_ordinary_text_only_gets_composed(text: str) -> None:
    assert normalise(text) == unicodedata.normalize("NFC", text)


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        ("Cafe\u0301 !", "Café !"),
        ("Vraiment\u202f? Oui\u00a0! Non\u2009;", "Vraiment ? Oui ! Non ;"),
        ("\ufeff  one\t two\u2028three\u2029\r\n", "one two three"),
        ("a\x00b\x1b[31mc", "ab[31mc"),
        ("in\u00advisible\u200b", "invisible"),
        ("\u2581x\ud800y", "_x\ufffdy"),
        ("l\u2019été, 👩\u200d💻 ﬁn", "l\u2019été, 👩\u200d💻 ﬁn"),
        (" \u3000 ", ""),
    ],
)
def test_examples(raw: str, wanted: str) -> None:
    assert normalise(raw) == wanted


def test_plain_touches_apostrophes_only() -> None:
    assert plain("l\u2019été, aujourd\u02bchui \u201cdit-il\u201d") == "l'été, aujourd'hui \u201cdit-il\u201d"


@given(st.text(st.sampled_from("e\u0301\u0323\u0344\u0308\u05b0\u0f71 "), min_size=300, max_size=900))
def test_long_runs_of_marks_are_what_nfc_makes_of_them(text: str) -> None:
    assert normalise(text) == " ".join(unicodedata.normalize("NFC", text).split())


@pytest.mark.parametrize(
    "unit", ["a", "e\u0301", "\u0301\u0323", "\u0344", "([{", " \t", "\x00", "\ud800", "\u2581", "é\u0323 ", "한", "ᄒ"]
)
def test_time_is_linear(unit: str) -> None:
    text = unit * (250_000 // len(unit.encode("utf-8", "surrogatepass")))
    started = time.process_time()
    normalise(text)
    assert time.process_time() - started < 2  # quadratic steps would take many seconds
