"""The arithmetic of one attention, step by step: a file for each file of layers/attention, found by its name.

An attention without such a file is spelled out from its `scores` (`_from_scores.py`). Other packages add files through
entry points of the group `regard.inspection.record.arithmetic.attention`, named like the module of their attention.
"""

from __future__ import annotations

from collections.abc import Callable

from regard import registry
from regard.inspection.record.arithmetic.attention._from_scores import from_scores
from regard.inspection.record.arithmetic.stages import Spelled
from regard.layers.attention._base import Attention

FAMILY = "inspection/record/arithmetic/attention"


def arithmetic_of(attention: Attention) -> Callable[..., Spelled] | None:
    """The function that spells out an attention; None for one that defines neither `scores` nor such a file."""
    kind = type(attention).__module__.rpartition(".")[2]
    if registry.is_kind(FAMILY, kind):
        return registry.factory(FAMILY, kind)
    return from_scores if type(attention).scores is not Attention.scores else None
