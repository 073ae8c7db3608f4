"""The arithmetic of local attention (layers/attention/local.py)."""

from __future__ import annotations

import torch

from regard.inspection.record.arithmetic.attention._scored import weighted
from regard.inspection.record.arithmetic.attention.multiplicative import match
from regard.inspection.record.arithmetic.interception import Call, plain, weight_of
from regard.inspection.record.arithmetic.query_origin import QueryOrigin
from regard.inspection.record.arithmetic.stages import Spelled, of_tokens, row, single
from regard.inspection.trace.arithmetic import Stage, short_number
from regard.layers.attention.local import Local

__all__ = ["local"]


def local(attention: Local, call: Call, place: int, head: int, names: list[str], given: QueryOrigin) -> Spelled:
    stages, scores = match(attention.match, call, place, names, given)
    query, seen, reach = call.query[place], call.visible[place], attention.window
    positions, length = torch.arange(len(names)), int(seen.sum())
    if attention.place is None:
        centre = torch.tensor(float(min(int(call.places[place]), max(0, length - 1))))
        said = "The window is centred on the position of the target token, but not beyond the end of the source."
        stages.append(Stage("place", "p = t", said, [row("p", centre[None])]))
    else:
        inner, outer = (plain(weight_of(attention.place[i])) for i in (0, 2))
        hidden = torch.tanh(inner @ query)
        guess = outer[0] @ hidden
        centre = length * torch.sigmoid(guess)
        how = [f"{length} × σ({short_number(float(guess))}) = {short_number(float(centre))}"]
        said = f"A small network predicts the centre of the window, between 0 and {length}, the length of the source."
        rows = [row("tanh(Wₚ s)", hidden), row("p", centre[None], how=how)]
        stages.append(Stage("place", "p = S · σ(vₚ · tanh(Wₚ s))", said, rows))
        before, scores = scores, scores - (positions - centre) ** 2 / (2 * (reach / 2) ** 2)
        taken = [
            f"{short_number(s)} - ({j} - {short_number(float(centre))})² ÷ {short_number(reach * reach / 2)} = "
            f"{short_number(t)}"
            for j, (s, t) in enumerate(zip(before.tolist(), scores.tolist()))
        ]
        said = "The logarithm of a Gaussian around the centre is added to the scores: distant tokens lose."
        formula = f"scoreⱼ - (j - p)² / (2 · {short_number(reach / 2)}²)"
        stages.append(Stage("Gaussian", formula, said, of_tokens(names, scores, "score", single(taken))))
    near = (positions - centre).abs() <= reach
    return weighted(stages, names, scores, seen & near, call.memory, f"farther than {reach} from p")
