"""The steps of a beam search as a tree of hypotheses."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from regard.data.tokenizer._base import Tokenizer
from regard.decoding.step_callback import Step
from regard.inspection.trace.translation import Branch, SearchStep
from regard.types import END


def search_tree(
    steps: Sequence[Step], ids: list[int], finished: bool, tokenizer: Tokenizer, prefix: Sequence[int] = ()
) -> list[SearchStep]:
    """The steps of one sentence's search after its forced prefix, without beams that are empty.

    `ids` and `finished` are the hypothesis that was chosen.
    """
    found: list[SearchStep] = []
    before: dict[int, tuple[int, list[int]]] = {0: (0, list(prefix))}  # beam -> its index in the list, its tokens
    for step in steps:
        parents, tokens, totals, ends, scores, kept = (
            part[0].tolist() for part in (step.parents, step.tokens, step.totals, step.ends, step.scores, step.kept)
        )
        still: list[Branch] = []
        after: dict[int, tuple[int, list[int]]] = {}
        for beam, (parent, token, total) in enumerate(zip(parents, tokens, totals)):
            if total == -torch.inf or parent not in before:
                continue
            index, past = before[parent]
            so_far = [*past, token]
            after[beam] = (len(still), so_far)
            piece = tokenizer.pieces([token])[0]
            still.append(Branch(index, piece, total, so_far == ids[: len(so_far)]))
        ended = [
            Branch(before[beam][0], tokenizer.pieces([END])[0], end, finished and before[beam][1] == ids, score)
            for beam, (end, score, stays) in enumerate(zip(ends, scores, kept))
            if stays and beam in before
        ]
        found.append(SearchStep(still, ended))
        before = after
    return found
