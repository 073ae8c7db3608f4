"""`regard lab length`: models of equal size, fair text, and what flips the verdict."""

import copy
import json
from pathlib import Path

import pytest

from regard.errors import UserError
from regard.lab import length
from regard.lab._experiment import Setting
from regard.lab._translators import by_length, length_ranges
from regard.lab.length import MODELS, SIZES, Length

NUMBERS = {
    "size": {"lengths": [10, 20, 30]},
    "corpus": "made up",
    "models": {
        name: {"parameters": 1, "learning_rate": 1e-3, "bleu": [30.0, 40.0, 20.0 if name == "no attention" else 33.0], "bleu_all": 30.0}
        for name in MODELS
    },
}  # fmt: skip


def changed(name: str, last: float) -> dict:
    numbers = copy.deepcopy(NUMBERS)
    numbers["models"][name]["bleu"][-1] = last
    return numbers


def test_the_verdict_and_what_flips_it():
    verdict = Length().verdict(NUMBERS)
    assert verdict.held
    assert "from 11-20 to 21-30 words the model without attention loses 50%" in verdict.sentence
    assert not Length().verdict(changed("no attention", 25.0)).held  # the control: it does not fall either (38 %)
    assert Length().verdict(changed("no attention", 24.0)).held
    for name in ("Bahdanau", "Luong", "Transformer"):
        assert not Length().verdict(changed(name, 31.0)).held
        assert Length().verdict(changed(name, 32.0)).held


def test_a_model_that_knows_nothing_loses_nothing_and_breaks_nothing():
    numbers = copy.deepcopy(NUMBERS)
    numbers["models"]["no attention"]["bleu"] = [0.0, 0.0, 0.0]
    assert not Length().verdict(numbers).held


def test_old_numbers_say_how_they_were_searched():
    assert "length penalty of 0.6" in Length().remark(NUMBERS)
    assert Length().remark({**NUMBERS, "size": {"length_penalty": 1.0}}) == ""


@pytest.mark.parametrize("size", ["small", "full"])
def test_the_models_are_of_one_size(size):
    wanted = SIZES[size]
    counts = [
        length._parameters(length._recipe(name, wanted, Path("."), Setting()).model, wanted.vocabulary)
        for name in MODELS
    ]
    assert max(counts) <= 1.1 * min(counts)
    assert all(abs(count - wanted.parameters) <= 0.05 * wanted.parameters for count in counts)


def test_the_made_up_language_is_translated_word_by_word_with_some_neighbours_swapped():
    name, train, valid, test = length._made_up(SIZES["small"], Setting(seed=3))
    assert len(train) == SIZES["small"].pairs and len(valid) == 50
    assert [len(pairs) for pairs in test] == [SIZES["small"].tests] * 5
    for (low, high), pairs in zip(length_ranges(SIZES["small"].lengths), test):
        assert all(low <= len(source.split()) <= high for source, _ in pairs)
    swapped = 0
    for source, target in train[:200]:
        words, said = source.split(), target.split()
        assert len(words) == len(said)
        straight = [word.replace("ka", "do").replace("ri", "ma") for word in words]
        assert sorted(straight) == sorted(said)
        for i, word in enumerate(words):
            after_thing = word.startswith("ri")
            assert (
                said[i - 1 if after_thing else i + 1 if words[i + 1 : i + 2] and words[i + 1][:2] == "ri" else i]
                == straight[i]
            )
            swapped += after_thing
    assert swapped > 100


def test_ranges_that_the_text_cannot_fill_are_refused():
    with pytest.raises(UserError, match="only 2 sentences of 1 to 3 words"):
        by_length([("a b", "c"), ("a", "b"), ("a b c d", "e")], (3, 6, 9), 20)


@pytest.mark.slow
def test_several_processes_give_what_one_gives():
    """Also that all runs have one tokenizer and one text: the losses are equal to the last digit."""
    alone, together = (Length().run("tiny", Setting(jobs=jobs)) for jobs in (1, 2))

    def without_times(numbers: dict) -> str:
        for found in numbers["models"].values():
            del found["seconds"]
        return json.dumps(numbers)

    assert without_times(together) == without_times(alone)
