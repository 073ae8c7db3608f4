"""Synthetic strings of digits and their copies, reversals and sums: correct and reproducible."""

import pytest

from regard.data.format.made_algorithm import LONGEST, MOST_VALID, MadeAlgorithm
from regard.errors import UserError


def carried(text: str) -> str:
    """The sum as one learns it in school: from the right, with a carry."""
    one, other = (side.split()[::-1] for side in text.split("+"))
    carry, digits = 0, []
    for place in range(max(len(one), len(other))):
        carry += sum(int(number[place]) for number in (one, other) if place < len(number))
        digits.append(carry % 10)
        carry //= 10
    return " ".join(str(digit) for digit in [*([carry] if carry else []), *digits[::-1]])


@pytest.mark.parametrize(
    "task, made", [("copy", lambda t: t), ("reverse", lambda t: " ".join(t.split()[::-1])), ("addition", carried)]
)
def test_targets_are_what_the_algorithm_makes_of_the_inputs(task, made):
    examples = MadeAlgorithm(task, 400, shortest=2, longest=5).read([], "train")
    assert len(examples) == 400
    assert all(target == made(text) for text, target in examples)
    lengths = {max(len(side.split()) for side in text.split("+")) for text, _ in examples}
    assert lengths == {2, 3, 4, 5}
    assert {word for text, _ in examples for word in text.split()} - {"+"} == set("0123456789")


def test_numbers_are_written_as_people_write_them():
    examples = MadeAlgorithm("addition", 300, longest=3).read([], "train")
    numbers = [side.split() for text, _ in examples for side in text.split("+")]
    assert {len(number) for number in numbers} == {1, 2, 3} and all(number[0] != "0" for number in numbers)
    longer = [len(a.split()) > len(b.split()) for a, b in (text.split("+") for text, _ in examples)]
    assert 30 < sum(longer) < 150  # either number may be the longer one
    (text, target), *_ = MadeAlgorithm("addition", 1, shortest=LONGEST, longest=LONGEST).read([], "test")
    assert target == carried(text)


def test_seeds_and_parts_differ_and_come_again():
    made = MadeAlgorithm("copy", MOST_VALID + 10, longest=20)
    parts = {part: made.read([], part) for part in ("train", "valid", "test")}
    assert parts["train"] == MadeAlgorithm("copy", MOST_VALID + 10, longest=20).read([], "train")
    assert [len(examples) for examples in parts.values()] == [MOST_VALID + 10, MOST_VALID, MOST_VALID]
    assert parts["train"][:5] != parts["valid"][:5] != parts["test"][:5]
    assert parts["train"] != MadeAlgorithm("copy", MOST_VALID + 10, seed=2, longest=20).read([], "train")


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"task": "revers"}, "did you mean 'reverse'"),
        ({"shortest": 5, "longest": 4}, "shortest"),
        ({"shortest": 0}, "shortest"),
        ({"longest": LONGEST + 1}, "longest"),
        ({"count": 0}, "count"),
        ({"count": 100_000, "longest": 2000}, "count"),
    ],
)
def test_what_cannot_be_made_is_refused_in_words(wrong, said):
    with pytest.raises(UserError, match=said):
        MadeAlgorithm(**wrong)
