"""What a recurrent decoder does with what it saw (decoder/attentional.py): Bahdanau's order, or Luong's."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.decoder.attentional import AttentionalDecoder
from regard.inspection.record.arithmetic.interception import Heard, bias_of, plain, weight_of
from regard.inspection.record.arithmetic.stages import row
from regard.inspection.trace.arithmetic import Stage


def using(
    decoder: AttentionalDecoder, heard: Heard, home: str, position: int, seen: Tensor
) -> tuple[list[Stage], Tensor]:
    """The stages after the attention, and what the decoder says in the end: from that come the next word's logits."""
    given = _rows([args[0] for args, _ in heard.of(f"{home}.readout")])[position]
    width, context = decoder.recurrence.layer(0)[0].width, len(seen)
    state = given[:width]
    readout: nn.Linear = decoder.readout
    weight, bias = plain(weight_of(readout)), bias_of(readout)
    if not decoder.before:
        together = torch.cat([state, seen])
        said = torch.tanh(weight @ together)
        words = "State and context together, through one more layer: from this the next word is chosen"
        words += ", and it goes into the next step." if decoder.fed else "."
        rows = [row("s", state), row("c", seen), row("a", said)]
        return [Stage("use", "a = tanh(W_C [s; c])", words, rows)], said
    word = given[width + context :]
    kind = type(decoder.recurrence.cells[0]).__name__
    step = Stage(
        "next state",
        f"s′ = {kind}(s, [y; c])",
        "The word before and what was seen go into the cell, which comes to its next state (the view gates shows how).",
        [row("y", word), row("c", seen), row("s′", state)],
    )
    pairs = weight @ torch.cat([state, seen, word]) + (plain(bias) if bias is not None else 0.0)
    said = pairs.unflatten(0, (-1, 2)).amax(-1)
    words = (
        "State, context and the word before, through a layer of pairs; of each the larger stays. From this the next "
    )
    words += "word is chosen."
    return [step, Stage("use", "a = maxout(W [s′; c; y] + b)", words, [row("pairs", pairs), row("a", said)])], said


def said_by(heard: Heard, home: str) -> Tensor:
    """What the decoder itself gave, (T, D)."""
    return _rows([output[0] for _, output in heard.of(f"{home}.advance")])


def _rows(calls: list[Tensor]) -> Tensor:
    """Of the first example, a row for each position, however many there were in a call."""
    return torch.cat([plain(one)[0] if one.ndim == 3 else plain(one)[:1] for one in calls])
