"""Sampled translations: every one has the terms or the beginning it must have, and the score of the model."""

from __future__ import annotations

from pathlib import Path

import pytest

import regard
from regard.errors import UserError
from regard.glossary import Glossary
from regard.task.translate import Translator
from regard.types import END

from .translators import FAMILIES, TEXTS, translator_of

each_family = pytest.mark.parametrize("tree", FAMILIES.values(), ids=FAMILIES)
SAMPLES = 3
QUICK = ("transformer", "bahdanau", "seq2seq")


def scored(translator: Translator, source: str, one: regard.task._translation.Translation) -> float:
    ids = [translator.tokenizer.id_of(piece) for piece in one.tokens]
    target = [*ids, END] if one.finished else ids
    return sum(translator.token_log_probs([translator.encode(source)], [target])[0])


@each_family
def test_every_sample_begins_with_the_prefix(tree: dict) -> None:
    translator = translator_of(tree)
    options = {"prefix": "hi fa", "n_best": SAMPLES, "max_length": 9}
    found = translator.translate(TEXTS[1:], temperature=1.3, **options)
    for row in found:
        samples = [row, *row.alternatives]
        assert len({one.text for one in samples}) > 1 and len(samples) == SAMPLES
        for one in samples:
            assert one.text.startswith("hi fa")
            assert one.log_probability == pytest.approx(scored(translator, row.source, one), abs=1e-3)
    other = translator.translate(TEXTS[2], temperature=1.3, seed=1, **{**options, "n_best": 1})
    assert other.text == found[1].alternatives[0].text, "the second sample has the second seed, alone as in a batch"
    searched = translator.translate(TEXTS[:2], beam=3, **{**options, "n_best": 1})
    for one in searched:
        assert one.text.startswith("hi fa")
        assert one.log_probability == pytest.approx(scored(translator, one.source, one), abs=1e-3)


@pytest.mark.parametrize(
    "tree",
    [pytest.param(tree, marks=[pytest.mark.slow] * (name not in QUICK)) for name, tree in FAMILIES.items()],
    ids=FAMILIES,
)
def test_every_sample_has_the_terms_that_it_must_have(tree: dict, tmp_path: Path) -> None:
    translator = translator_of(tree)
    (tmp_path / "terms.tsv").write_text("def\tgah\nab\tig\nfed\tbibi\n", encoding="utf-8")
    glossary = Glossary.read(tmp_path / "terms.tsv")
    texts = TEXTS[1:3]
    options = {"n_best": SAMPLES, "max_length": 10}
    free = translator.translate(texts, top_k=8, **options)
    found = translator.translate(texts, top_k=8, glossary=glossary, **options)
    lacked, different = 0, 0
    for text, without, row in zip(texts, free, found):
        wanted = glossary.wanted(text)
        assert wanted
        for one in (row, *row.alternatives):
            assert one.finished and all(each.is_in(one.text) for each in wanted), one.text
            assert one.log_probability == pytest.approx(scored(translator, text, one), abs=1e-3)
        lacked += sum(not each.is_in(one.text) for one in (without, *without.alternatives) for each in wanted)
        different += len({one.text for one in (row, *row.alternatives)})
    assert different > len(texts) and lacked > 2, "otherwise the glossary had nothing to do"


def test_only_the_first_part_of_a_text_begins_with_the_prefix() -> None:
    translator = translator_of(FAMILIES["transformer"])
    translator.recipe.data.max_length = 12
    found = translator.translate("abc def abc def ghi", prefix="fa", max_length=6, beam=2)
    alone = translator.translate("abc def", max_length=6, beam=2)
    assert found.text.startswith("fa") and alone.text != found.text
    assert translator.parts("abc def abc def ghi") != ["abc def abc def ghi"]


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    translator = translator_of(FAMILIES["transformer"])
    (tmp_path / "terms.tsv").write_text("def\tgah\n", encoding="utf-8")
    with pytest.raises(UserError, match="a prefix and a glossary do not go together"):
        translator.translate("abc", prefix="a", glossary=Glossary.read(tmp_path / "terms.tsv"))
    chain = regard.chain(translator)
    for options in ({"prefix": "a"}, {"temperature": 1.0}):
        with pytest.raises(UserError, match="not a chain"):
            chain.translate("abc", **options)
