from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from regard.data.corpus.filters import BloomFilter, Filters, UsualScript, script


def test_each_reason_is_counted() -> None:
    good = [(f"la phrase {i} est là", f"sentence {i} is there") for i in range(20)]
    pairs = [
        *good,
        ("", "nothing"),
        ("rien", "\u200b "),
        ("the same words twice", "The same  words twice"),
        ("Tom Smith", "Tom Smith"),  # short: may be right
        ("это по-русски", "this is Russian"),
        ("en russe", "по-русски"),
        ("c'est bien Путин", "it is Путин, they say"),  # mostly Latin
        good[3],
        ("la  phrase 4 est la\u0300", good[4][1]),  # the same when normalised
    ]
    filters = Filters()
    kept = filters.by_text(pairs)
    assert kept == [*good, ("Tom Smith", "Tom Smith"), ("c'est bien Путин", "it is Путин, they say")]
    assert filters.dropped == {"empty": 2, "identical": 1, "wrong_script": 2, "duplicate": 2}
    assert filters.by_text(good) == [] and filters.dropped["duplicate"] == 22


def test_filters_can_be_turned_off() -> None:
    pairs = [("the same words twice", "the same words twice")] * 2 + [("слово", "word")]
    filters = Filters(drop_duplicates=False, drop_identical=False, drop_wrong_script=False)
    assert filters.by_text(pairs) == pairs and not +filters.dropped


def test_lengths() -> None:
    filters = Filters(max_length=20, max_ratio=3.0)
    pairs = [
        (1, 6, True),
        (1, 7, False),
        (6, 1, True),
        (5, 15, True),
        (5, 16, False),
        (20, 20, True),
        (20, 21, False),
        (0, 3, False),
    ]
    source, target, wanted = (np.array(column) for column in zip(*pairs, strict=True))
    assert (filters.by_length(source, target) == wanted.astype(bool)).all()
    assert filters.dropped == {"too_long": 1, "ratio": 3}


def test_scripts() -> None:
    assert [script(c) for c in "aéßЖ語ひア한עلα1 !"] == (
        ["LATIN"] * 3 + ["CYRILLIC", "CJK", "HIRAGANA", "KATAKANA", "HANGUL", "HEBREW", "ARABIC", "GREEK", "", "", ""]
    )
    japanese = UsualScript(["私は学生です。", "カタカナとひらがな", "A"])
    assert japanese.fits("漢字") and japanese.fits("かな 100%") and japanese.fits("!?") and not japanese.fits("English")


@given(st.lists(st.lists(st.text("abc", max_size=3), max_size=30), max_size=5))
def test_seen_is_a_set(chunks: list[list[str]]) -> None:
    seen, wanted = BloomFilter(bits=2**16), set[str]()
    for chunk in chunks:
        if not chunk:
            continue
        expected = [not (text in wanted or wanted.add(text)) for text in chunk]  # type: ignore[func-returns-value]
        assert seen.add(chunk).tolist() == expected


def test_seen_forgets_nothing_and_imagines_little() -> None:
    bits, count = 2**20, 60_000
    seen = BloomFilter(bits)
    new = sum(int(seen.add([f"{i}" for i in range(start, start + 1000)]).sum()) for start in range(0, count, 1000))
    full = 1 - np.exp(-5 * count / bits)
    assert count - new < 2 * count * full**5 and new < count  # the textbook rate, at its worst, for the whole run
    assert not seen.add([f"{i}" for i in range(count)]).any()
