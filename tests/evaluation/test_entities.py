"""Entity F1 by hand, and against an independent slow implementation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.evaluation.entities import Entity, entities, entity_scores


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ("O B-per I-per O", [("per", 1, 3)]),
        ("B-per B-per I-per", [("per", 0, 1), ("per", 1, 3)]),
        ("B-per I-loc I-loc", [("per", 0, 1), ("loc", 1, 3)]),
        ("I-per I-per O I-per", [("per", 0, 2), ("per", 3, 4)]),  # nothing to go on with: it begins
        ("B-creative-work I-creative-work", [("creative-work", 0, 2)]),
        ("O EI O IE IE", [("EI", 1, 2), ("IE", 3, 4), ("IE", 4, 5)]),  # one base each
        ("EI I-EI", [("EI", 0, 1), ("EI", 1, 2)]),
        ("E-x B- I-", [("E-x", 0, 1), ("B-", 1, 2), ("I-", 2, 3)]),
        ("O O", []),
        ("", []),
    ],
)
def test_by_hand(tags, found):
    assert entities(tags.split()) == [Entity(*one) for one in found]


def test_scores_by_hand():
    wanted = [["B-per", "I-per", "O", "B-loc"], ["O", "B-per"]]
    given = [["B-per", "O", "O", "B-loc"], ["B-per", "B-per"]]
    # given: (per 0-1) wrong end, (loc 3-4) right, (per 0-1) wrong, (per 1-2) right; wanted: three
    assert entity_scores(given, wanted) == pytest.approx({"precision": 50, "recall": 200 / 3, "f1": 400 / 7})
    assert entity_scores(wanted, wanted)["f1"] == 100
    assert entity_scores([["O"]], [["B-x"]]) == {"f1": 0, "precision": 0, "recall": 0}
    assert entity_scores([["O"]], [["O"]]) == {"f1": 0, "precision": 0, "recall": 0}
    assert entity_scores([["B-loc"]], [["B-per"]])["f1"] == 0
    with pytest.raises(ValueError, match="1 predicted tags, but 2 reference tags"):
        entity_scores([["O"]], [["O", "O"]])


def slow(tags):
    """A chunk begins where this tag cannot continue the last one, as conlleval's two functions say it."""
    found = set()
    padded = ["O", *tags, "O"]
    begins = None
    for i in range(1, len(padded)):
        (before, old), (now, new) = (t.split("-", 1) if "-" in t else (t, "") for t in padded[i - 1 : i + 1])
        if begins is not None and (now in "OB" or old != new):
            found.add((old, begins, i - 1))
            begins = None
        if now == "B" or (now == "I" and (before == "O" or old != new)):
            begins = i - 1
    return found


tags = st.lists(st.sampled_from(["O", "B-a", "I-a", "B-b", "I-b"]), max_size=12)


@given(tags)
def test_as_a_slow_reading(tags):
    found = entities(tags)
    assert {tuple(one) for one in found} == slow(tags) and len(found) == len(slow(tags))


@given(st.lists(st.tuples(tags, tags), max_size=5))
def test_scores_as_by_sets(pairs):
    pairs = [(one[: len(other)], other[: len(one)]) for one, other in pairs]
    given_, wanted = [one for one, _ in pairs], [other for _, other in pairs]
    each = [(slow(one), slow(other)) for one, other in pairs]
    right, a, b = (
        sum(map(len, sets)) for sets in ([x & y for x, y in each], [x for x, _ in each], [y for _, y in each])
    )
    scores = entity_scores(given_, wanted)
    precision, recall = right / a if a else 0, right / b if b else 0
    f1 = 2 * precision * recall / (precision + recall) if right else 0
    assert scores == pytest.approx({"f1": 100 * f1, "precision": 100 * precision, "recall": 100 * recall})
