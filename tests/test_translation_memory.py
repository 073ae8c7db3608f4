"""Translation memories: matches against brute force, and translators that use them."""

from __future__ import annotations

import random

import pytest

from regard.errors import UserError
from regard.translation_memory import CANDIDATES, TranslationMemory
from tests.task.translators import FAMILIES, translator_of


def distance(one: list[str], other: list[str]) -> int:
    row = list(range(len(other) + 1))
    for i, left in enumerate(one, 1):
        before, row[0] = row[0], i
        for j, right in enumerate(other, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (left != right))
    return row[-1]


def test_the_similarity_is_one_minus_the_edit_distance() -> None:
    draw = random.Random(5)
    texts = [" ".join(draw.choices("abcdefgh", k=draw.randint(1, 9))) for _ in range(CANDIDATES)]
    memory = TranslationMemory([(text, text.upper()) for text in texts], threshold=0.5)
    for query in (texts[3], "a b c d e", "h x a x", "x y"):
        words = query.split()
        expected = {
            text: 1 - distance(words, text.split()) / max(len(words), len(text.split()))
            for text in texts
            if set(words) & set(text.split())
        }
        found = memory.neighbours(query, 1000)
        assert {one.source: one.similarity for one in found} == pytest.approx(expected)
        assert [one.similarity for one in found] == sorted(expected.values(), reverse=True)
        assert memory.matches(query) == [one for one in found[:3] if one.similarity >= 0.5]
    assert not memory.matches("") and not memory.neighbours("x y")


def test_rare_words_find_one_pair_among_many() -> None:
    pairs = [(f"the house number {n} is red", f"das Haus {n}") for n in range(2000)]
    memory = TranslationMemory(pairs)
    assert [one.target for one in memory.matches("the house number 777 was red", 1)] == ["das Haus 777"]
    assert len(memory.neighbours("the house")) == 8  # only frequent words


def test_exact_matches() -> None:
    memory = TranslationMemory(
        [("L\u2019été  vient", "b"), ("L'été vient", "a"), ("L'été vient", "a"), ("", "x"), ("y", "")]
    )
    assert len(memory) == 2
    assert memory.exact("L'été\u00a0vient").target == "a"  # the most frequent one
    assert memory.exact("l'été vient") is None
    assert memory.matches("l'été vient")[0].similarity == 1


@pytest.mark.parametrize("tree", FAMILIES.values(), ids=FAMILIES)
def test_a_translator_uses_exact_matches_and_leans_on_similar_ones(tree: dict) -> None:
    translator = translator_of(tree)
    memory = TranslationMemory([("abc def ghi", "fed ghi abc"), ("fed", "Ünknown cd")], threshold=0.4)
    texts = ["abc def gi", "fed", "h h h"]
    plain = translator.translate(texts, beam=2, max_length=16)
    found = translator.translate(texts, beam=2, max_length=16, memory=memory, alignment=tree != FAMILIES["seq2seq"])
    assert found[1].text == "Ünknown cd" and found[1].matches[0].similarity == 1  # verbatim, even what has no token
    assert [match.source for match in found[0].matches] == ["abc def ghi"]
    assert found[2].text == plain[2].text and not found[2].matches
    assert found[2].log_probability == pytest.approx(plain[2].log_probability, abs=1e-4)  # nothing is near
    both = translator.translate("abc def gi", beam=2, max_length=16, memory=memory)
    assert both.text == found[0].text


def test_a_similar_pair_changes_a_translation() -> None:
    """The decoder reads the very source of the pair, so each of its states is a key of the datastore, at distance 0."""
    translator = translator_of(FAMILIES["transformer"])
    memory = TranslationMemory([("abc def", "fed abc")])
    memory._exact.clear()
    before, after = (
        translator.translate("abc def", beam=1, max_length=16, **more) for more in ({}, {"memory": memory})
    )
    assert before.text != "fed abc" and after.text == "fed abc"


def test_the_parts_of_a_long_text_have_matches_of_their_own() -> None:
    translator = translator_of(FAMILIES["transformer"], alphabet="abcdef ghi.")
    memory = TranslationMemory([("Abc.", "one"), ("Fed. Fed. Abc. Abc.", "all of it")])
    found = translator.translate("Abc. Fed. Def.", max_length=5, memory=memory, alignment=True)
    assert found.text.startswith("one ")
    assert found.attention.shape == (len(found.text.split()), 3) and not found.attention[0].any()
    assert translator.translate("Fed. Fed. Abc. Abc.", memory=memory).text == "all of it"


def test_mistakes_are_one_line(tmp_path) -> None:
    translator = translator_of(FAMILIES["luong"])
    (tmp_path / "one.tsv").write_text("only a text\n")
    (tmp_path / "empty.tsv").write_text("\t\n")
    (tmp_path / "text.txt").write_text("a\tb\n")
    for name, message in {
        "one.tsv": r"one.tsv, line 1: has 1 column\(s\), but column 2 is wanted",
        "empty.tsv": "has no pairs",
        "text.txt": "a table of two columns; name it .tsv",
    }.items():
        with pytest.raises(UserError, match=message):
            TranslationMemory.read(tmp_path / name)
    memory = TranslationMemory([("a", "b")])
    with pytest.raises(UserError, match="threshold"):
        TranslationMemory([("a", "b")], threshold=0)
    with pytest.raises(UserError, match="a memory goes with plain beam search"):
        translator.translate("a", memory=memory, top_k=3)
