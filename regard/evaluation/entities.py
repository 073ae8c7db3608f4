"""Entity-level precision, recall and F1 of tagged sentences, in percent.

An entity is correct if its kind and both ends are. Tags are read like conlleval, the script of the CoNLL tasks: `B-x`
begins an entity of kind x, `I-x` continues it, and an `I-x` with nothing of its kind to continue begins one. A tag
without such a prefix (other than `O`) is an entity of one position.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

OUTSIDE = "O"


class Entity(NamedTuple):
    """The positions `start` to `stop` - 1."""

    kind: str
    start: int
    stop: int


def entities(tags: Sequence[str]) -> list[Entity]:
    """The entities of a sentence in order; they never overlap."""
    found: list[Entity] = []
    open_kind = ""  # of the entity that an `I-` would continue
    for position, tag in enumerate(tags):
        prefix, dash, kind = tag.partition("-")
        inside = bool(dash and kind) and prefix in ("B", "I")
        if inside and prefix == "I" and kind == open_kind:
            found[-1] = found[-1]._replace(stop=position + 1)
        elif tag != OUTSIDE:
            found.append(Entity(kind if inside else tag, position, position + 1))
        open_kind = kind if inside else ""
    return found


def entity_scores(predicted: Sequence[Sequence[str]], truth: Sequence[Sequence[str]]) -> dict[str, float]:
    """F1, precision and recall over all sentences; 0 where there are no entities."""
    correct = in_predicted = in_truth = 0
    for ours, theirs in zip(predicted, truth, strict=True):
        if len(ours) != len(theirs):
            raise ValueError(f"{len(ours)} predicted tags, but {len(theirs)} reference tags")
        found, true = entities(ours), entities(theirs)
        correct += sum((Counter(found) & Counter(true)).values())
        in_predicted += len(found)
        in_truth += len(true)
    return {
        "f1": 200 * correct / max(1, in_predicted + in_truth),
        "precision": 100 * correct / max(1, in_predicted),
        "recall": 100 * correct / max(1, in_truth),
    }
