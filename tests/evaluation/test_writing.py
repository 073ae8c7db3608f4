"""BLEU with several references against sacreBLEU; word error rate against exhaustive search."""

import functools
import random

import pytest
import sacrebleu

from regard.errors import UserError
from regard.evaluation.writing import bleu4, word_error_rate, word_errors

WORDS = ["a", "the", "dog", "cat", "runs", "sits", "on", "grass", ",", "brown", "two", ".", "Dogs"]


def sentence(pick: random.Random, least: int = 4) -> str:
    return " ".join(pick.choices(WORDS, k=pick.randint(least, 12)))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_as_many_references_each(count):
    pick = random.Random(count)
    outputs = [sentence(pick) for _ in range(30)]
    references = [[sentence(pick) for _ in range(count)] for _ in outputs]
    columns = [list(column) for column in zip(*references)]
    expected = sacrebleu.corpus_bleu(outputs, columns, lowercase=True).score
    assert bleu4(outputs, references) == pytest.approx(expected, abs=1e-9) and expected > 0
    cased = sacrebleu.corpus_bleu(outputs, columns).score
    assert bleu4(outputs, references, lowercase=False) == pytest.approx(cased, abs=1e-9)


def test_unequal_numbers_of_references():
    """What a sentence lacks must not count: repeating a reference it has gives the same score."""
    pick = random.Random(7)
    outputs = [sentence(pick) for _ in range(40)]
    references = [[sentence(pick) for _ in range(pick.randint(1, 5))] for _ in outputs]
    most = max(map(len, references))
    filled = [[(refs * most)[i] for refs in references] for i in range(most)]
    expected = sacrebleu.corpus_bleu(outputs, filled, lowercase=True).score
    assert bleu4(outputs, references) == pytest.approx(expected, abs=1e-9)
    missing = [[refs[i] if i < len(refs) else None for refs in references] for i in range(most)]
    assert bleu4(outputs, references) == pytest.approx(sacrebleu.corpus_bleu(outputs, missing, lowercase=True).score)


def test_the_best_reference_is_enough():
    assert bleu4(["A dog runs on grass ."], [["two cats sit there .", "a dog runs on grass ."]]) == pytest.approx(100)
    assert bleu4(["x y z w"], [["a b c d"]]) < 20


def test_tokenised_captions_are_nothing_to_warn_of(caplog):
    bleu4(["a dog runs ."] * 150, [["a dog sits ."]] * 150)
    assert not caplog.records


@pytest.mark.parametrize(
    ("outputs", "references"),
    [([], []), (["a"], []), (["a", "b"], [["a"]]), (["a", "b"], [["a"], []])],
)
def test_what_cannot_be_scored_is_refused(outputs, references):
    with pytest.raises(UserError, match="each needs its own"):
        bleu4(outputs, references)


def tried(output: tuple[str, ...], wanted: tuple[str, ...]) -> int:
    """The fewest changes, by trying them all."""

    @functools.cache
    def least(i: int, j: int) -> int:
        if i == len(output) or j == len(wanted):
            return len(output) - i + len(wanted) - j
        kept = least(i + 1, j + 1) + (output[i] != wanted[j])
        return min(kept, least(i + 1, j) + 1, least(i, j + 1) + 1)

    return least(0, 0)


def test_word_errors_are_the_fewest_changes():
    pick = random.Random(2)
    for _ in range(300):
        output = tuple(pick.choices("abc", k=pick.randint(0, 7)))
        wanted = tuple(pick.choices("abc", k=pick.randint(0, 7)))
        assert word_errors(output, wanted) == tried(output, wanted) == word_errors(wanted, output)


def test_word_error_rate_by_hand():
    assert word_error_rate(["one two three"], ["one two three"]) == 0
    assert word_error_rate(["one three"], ["one two three"]) == pytest.approx(100 / 3)  # one left out
    assert word_error_rate(["one two two three"], ["one two three"]) == pytest.approx(100 / 3)  # one too many
    assert word_error_rate(["one too three"], ["one two three"]) == pytest.approx(100 / 3)  # one exchanged
    assert word_error_rate([""], ["one two"]) == 100
    assert word_error_rate(["a b c d"], ["x"]) == 400  # more is wrong than was wanted
    # Over the corpus, not the mean of the lines: 1 error of 5 words.
    assert word_error_rate(["one", "a b c x"], ["one", "a b c d"]) == 20
    assert word_error_rate([""], [""]) == 0
