"""Record one decoding step of a translation: the most likely next tokens, and the cross-attention of the step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.batching import pad
from regard.data.tokenizer._base import Tokenizer
from regard.directions import NO_MARKS, Marks
from regard.errors import UserError
from regard.inspection.record import layers
from regard.inspection.trace.base import CROSS
from regard.inspection.trace.translation import Alternative
from regard.layers.capture import capture
from regard.task._writing import longest_text
from regard.types import BEGIN, END, PAD, UNKNOWN

if TYPE_CHECKING:
    from regard.task.translate import Translator

LIKELIEST = 10
FORBIDDEN = (PAD, UNKNOWN, BEGIN)
"""Tokens that no search generates (decoding/rules.py, Forbid), so a forced prefix must not hold them either."""


@dataclass
class DecodingStep:
    """The decoder's output at one step."""

    alternatives: list[Alternative]
    """The most likely tokens, most likely first."""
    weights: list[np.ndarray]
    """The cross-attention of each layer, (heads, source tokens); empty without attention."""
    probabilities: list[float]
    """The probability of each token of the prefix, given those before it."""


@torch.inference_mode()
def decoding_step(
    translator: Translator, text: str, prefix: Sequence[int], step: int | None = None, told: Marks = NO_MARKS
) -> DecodingStep:
    """Step number `step` of the prefix, from 0; by default the step after it. One forward pass.

    The prefix begins with the tag of the target language, if the model needs one (`told`)."""
    model, tokenizer = translator.model, translator.tokenizer.target
    prefix = after_tags(prefix, told)
    check_prefix(prefix, model, len(tokenizer))
    fed = [BEGIN, *(prefix[:-1] if prefix and prefix[-1] == END else prefix)]
    row = len(fed) - 1 if step is None else step
    if not 0 <= row < len(fed):
        raise UserError(f"step {row}: the steps are 0 to {len(fed) - 1}")
    ids, mask = (tensor.to(translator.device) for tensor in pad([translator.source_row(translator.encode(text, told))]))
    with capture(model) as captured:
        logits = model(ids, mask, torch.tensor([fed], device=translator.device))
    cross = [one for one in layers.attention(dict(model.named_modules()), captured) if one.kind == CROSS]
    probabilities = logits[0].float().softmax(-1)
    of_prefix = [float(probabilities[index, token]) for index, token in enumerate(prefix)]
    return DecodingStep(
        alternatives_of(probabilities[row], tokenizer), [one.weights[:, row] for one in cross], of_prefix
    )


def alternatives_of(probabilities: Tensor, tokenizer: Tokenizer, count: int = LIKELIEST) -> list[Alternative]:
    """The most likely tokens of those that can be generated."""
    allowed = probabilities.clone()
    allowed[list(FORBIDDEN)] = -1.0
    values, indexes = allowed.topk(min(count, len(allowed) - len(FORBIDDEN)))
    ids = indexes.tolist()
    return [Alternative(*one) for one in zip(ids, tokenizer.pieces(ids), values.tolist())]


def after_tags(prefix: Sequence[int], told: Marks) -> list[int]:
    """The prefix with the tag of the target language in front, if it is not there yet."""
    tags = list(told.prefix)
    return list(prefix) if list(prefix[: len(tags)]) == tags else [*tags, *prefix]


def check_prefix(prefix: Sequence[int], model: nn.Module, vocabulary: int) -> None:
    """Refuses a forced prefix that the model cannot generate: unknown tokens, tokens after END, too many."""
    for index, token in enumerate(prefix):
        if not 0 <= token < vocabulary or token in FORBIDDEN:
            raise UserError(f"token {token} at position {index} is not one that this model generates")
        if token == END and index < len(prefix) - 1:
            raise UserError(f"the text ends at position {index}; nothing can follow")
    known = longest_text(model)
    if known and len(prefix) > known:
        raise UserError(f"this model generates at most {known} tokens, not {len(prefix)}")
