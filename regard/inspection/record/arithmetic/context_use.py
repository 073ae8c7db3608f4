"""How a recurrent decoder uses the context vector (decoder/attentional.py): Bahdanau's order, or Luong's."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.decoder.attentional import AttentionalDecoder
from regard.inspection.record.arithmetic.interception import Intercepted, bias_of, plain, weight_of
from regard.inspection.record.arithmetic.stages import row
from regard.inspection.trace.arithmetic import Stage


def context_use(
    decoder: AttentionalDecoder, intercepted: Intercepted, home: str, position: int, seen: Tensor
) -> tuple[list[Stage], Tensor]:
    """The stages after the attention, and the decoder's output, from which the logits are computed."""
    given = _rows([args[0] for args, _ in intercepted.of(f"{home}.readout")])[position]
    width, context = decoder.recurrence.layer(0)[0].width, len(seen)
    state = given[:width]
    readout: nn.Linear = decoder.readout
    weight, bias = plain(weight_of(readout)), bias_of(readout)
    if not decoder.before:
        together = torch.cat([state, seen])
        said = torch.tanh(weight @ together)
        words = "State and context go through one more layer; the logits of the next token are computed from it"
        words += ", and it is fed into the next step." if decoder.fed else "."
        rows = [row("s", state), row("c", seen), row("a", said)]
        return [Stage("use", "a = tanh(W_C [s; c])", words, rows)], said
    word = given[width + context :]
    kind = type(decoder.recurrence.cells[0]).__name__
    step = Stage(
        "next state",
        f"s′ = {kind}(s, [y; c])",
        "The previous token and the context go into the cell, which computes the next state (see the view gates).",
        [row("y", word), row("c", seen), row("s′", state)],
    )
    pairs = weight @ torch.cat([state, seen, word]) + (plain(bias) if bias is not None else 0.0)
    said = pairs.unflatten(0, (-1, 2)).amax(-1)
    words = (
        "State, context and previous token go through a maxout layer, which keeps the larger number of each pair. The "
        "logits of the next token are computed from it."
    )
    return [step, Stage("use", "a = maxout(W [s′; c; y] + b)", words, [row("pairs", pairs), row("a", said)])], said


def decoder_output(intercepted: Intercepted, home: str) -> Tensor:
    """The decoder's own output, (T, D)."""
    return _rows([output[0] for _, output in intercepted.of(f"{home}.advance")])


def _rows(calls: list[Tensor]) -> Tensor:
    """The first example's rows, one per position, from calls with one or many positions."""
    return torch.cat([plain(one)[0] if one.ndim == 3 else plain(one)[:1] for one in calls])
