"""Entities in tagged sentences, and how many of them were found, in percent.

An entity is right when its kind and both its ends are. Tags are read as conlleval, the script of the CoNLL tasks, reads
them: `B-x` begins an entity of kind x, `I-x` goes on with it, and an `I-x` that has nothing of its kind to go on with
begins one. A tag without such a prefix (other than `O`) is an entity of one position.
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
    """In the order of the sentence; they never overlap."""
    found: list[Entity] = []
    open_kind = ""  # of an entity that `I-` may go on with
    for place, tag in enumerate(tags):
        prefix, dash, kind = tag.partition("-")
        inside = bool(dash and kind) and prefix in ("B", "I")
        if inside and prefix == "I" and kind == open_kind:
            found[-1] = found[-1]._replace(stop=place + 1)
        elif tag != OUTSIDE:
            found.append(Entity(kind if inside else tag, place, place + 1))
        open_kind = kind if inside else ""
    return found


def entity_scores(given: Sequence[Sequence[str]], wanted: Sequence[Sequence[str]]) -> dict[str, float]:
    """F1, precision and recall over all sentences; 0 where nothing was given or wanted."""
    right = each_given = each_wanted = 0
    for ours, theirs in zip(given, wanted, strict=True):
        if len(ours) != len(theirs):
            raise ValueError(f"{len(ours)} tags given, {len(theirs)} wanted")
        found, true = entities(ours), entities(theirs)
        right += sum((Counter(found) & Counter(true)).values())
        each_given += len(found)
        each_wanted += len(true)
    return {
        "f1": 200 * right / max(1, each_given + each_wanted),
        "precision": 100 * right / max(1, each_given),
        "recall": 100 * right / max(1, each_wanted),
    }
