"""One step of writing, seen by itself: what may come after the tokens so far, and where the model looks for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.batching import pad
from regard.data.tokenizer._base import Tokenizer
from regard.errors import UserError
from regard.inspection.draw.steps import Next
from regard.inspection.record import layers as told
from regard.inspection.trace.base import CROSS
from regard.layers.capture import capture
from regard.task._writing import longest_text
from regard.types import BEGIN, END, PAD, UNKNOWN

if TYPE_CHECKING:
    from regard.task.translate import Translator

LIKELIEST = 10
FORBIDDEN = (PAD, UNKNOWN, BEGIN)
"""What no search writes (decoding/rules.py, Forbid), so that nobody may choose it either."""


@dataclass
class NextStep:
    """What a model thought before it wrote a token."""

    nexts: list[Next]
    """What is likeliest, likeliest first."""
    weights: list[np.ndarray]
    """Of each layer (heads, source tokens); empty where there is no attention."""
    probabilities: list[float]
    """How sure the model was of each token that is written, given those before it."""


@torch.inference_mode()
def next_step(translator: Translator, text: str, written: Sequence[int], step: int | None = None) -> NextStep:
    """What came to the model at a step, from 0, of what is written; by default what comes to it next. One pass."""
    model, tokenizer = translator.model, translator.tokenizer
    check_given(written, model, len(tokenizer))
    fed = [BEGIN, *(written[:-1] if written and written[-1] == END else written)]
    row = len(fed) - 1 if step is None else step
    if not 0 <= row < len(fed):
        raise UserError(f"step {row}: there are the steps 0 to {len(fed) - 1}")
    ids, mask = (tensor.to(translator.device) for tensor in pad([[*translator.encode(text), END]]))
    with capture(model) as seen:
        logits = model(ids, mask, torch.tensor([fed], device=translator.device))
    layers = [one for one in told.attention(dict(model.named_modules()), seen) if one.kind == CROSS]
    chances = logits[0].float().softmax(-1)
    sure = [float(chances[place, token]) for place, token in enumerate(written)]
    return NextStep(likeliest(chances[row], tokenizer), [one.weights[:, row] for one in layers], sure)


def likeliest(chances: Tensor, tokenizer: Tokenizer, count: int = LIKELIEST) -> list[Next]:
    """The tokens with the greatest of these probabilities, of those that may be written."""
    allowed = chances.clone()
    allowed[list(FORBIDDEN)] = -1.0
    values, places = allowed.topk(min(count, len(allowed) - len(FORBIDDEN)))
    ids = places.tolist()
    return [Next(*one) for one in zip(ids, tokenizer.pieces(ids), values.tolist())]


def check_given(given: Sequence[int], model: nn.Module, vocabulary: int) -> None:
    """Refuses tokens that nobody could have written: unknown ones, and what comes after the end."""
    for place, token in enumerate(given):
        if not 0 <= token < vocabulary or token in FORBIDDEN:
            raise UserError(f"token {token}, at place {place}, is none that this model writes")
        if token == END and place < len(given) - 1:
            raise UserError(f"the text ends at place {place}; nothing can be written after it")
    known = longest_text(model)
    if known and len(given) > known:
        raise UserError(f"this model writes at most {known} tokens, and {len(given)} were given")
