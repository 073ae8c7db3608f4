"""Record a language model on a text: the probability of each token, and the distribution of the next one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard.data.tokenizer._base import Tokenizer
from regard.errors import UserError
from regard.inspection.record.arithmetic.selection import calculator
from regard.inspection.record.attribution import Axis, TokenCandidates, attributor, written_axis
from regard.inspection.record.gradients import gradients_of
from regard.inspection.record.layers import layers_of
from regard.inspection.record.logit_lens import logit_lens
from regard.inspection.record.next_token import distribution_of
from regard.inspection.record.translate import words_of
from regard.inspection.trace.base import TARGET, Side
from regard.inspection.trace.gradients import Gradients
from regard.inspection.trace.next_token import Guess, Option
from regard.inspection.trace.text import LanguageModelTrace
from regard.layers.capture import capture
from regard.types import BEGIN

if TYPE_CHECKING:
    from regard.task.generate import Generator

ALTERNATIVES = 5
"""Alternatives that are recorded at each token."""


@torch.inference_mode()
def record_language_model(
    generator: Generator, text: str, name: str = "", temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0
) -> LanguageModelTrace:
    """The trace of one forward pass over the text."""
    tokenizer, device = generator.tokenizer, generator.device
    ids = generator.encode(text)
    if generator.forgets and len(ids) >= generator.window:
        raise UserError(
            f"the text has {len(ids)} tokens, but this model reads at most {generator.window - 1}; "
            "use a shorter part of it"
        )
    fed = [BEGIN, *ids]
    with capture(generator.model) as captured:
        (logits,) = generator.model(torch.tensor([fed], device=device)).float()
    last, log_probs = generator.outlook(ids)
    trace = LanguageModelTrace(
        model=name,
        source=Side(text, tokenizer.pieces(ids), *words_of(tokenizer, text, ids)),
        read=tokenizer.pieces(fed),
        guesses=_guesses(tokenizer, logits[:-1], ids),
        said=text,
        next=distribution_of(tokenizer, last, log_probs, temperature, top_k, top_p),
        **layers_of(generator, captured, {TARGET: len(fed)}),
    )
    outputs = [*ids, int(log_probs.nan_to_num(nan=-torch.inf).argmax())]

    def compute_gradients(position: int) -> Gradients:
        read = fed[: position + 1]

        def log_probability() -> Tensor:
            rows = generator.model(torch.tensor([read], device=device))
            return rows[0, -1].float().log_softmax(-1)[outputs[position]]

        return gradients_of(generator.model, log_probability, position, trace.outputs()[position], {TARGET: len(read)})

    def log_probabilities(copies: int, count: int) -> Tensor:
        read = torch.tensor([fed[:count]], device=device).expand(copies, -1)
        return generator.model(read).float().log_softmax(-1)

    trace.compute_gradients = compute_gradients
    trace.compute_attribution = attributor(
        generator.model,
        log_probabilities,
        outputs,
        {TARGET: written_axis(trace.read, trace.source.words, trace.source.word_of)},
        Axis(trace.outputs()),
        TokenCandidates(tokenizer),
        by_default=[len(outputs) - 1],
    )
    trace.compute_calculation = calculator(generator.model, lambda: generator.model(torch.tensor([fed], device=device)))
    trace.compute_logit_lens = lambda: logit_lens(
        generator.model, lambda: generator.model(torch.tensor([fed], device=device)), tokenizer, trace.read, outputs
    )
    return trace


def score_text(generator: Generator, text: str, most: int) -> tuple[list[Guess], int]:
    """The probability of each of the last `most` tokens of a text, and the number of tokens before these.

    Nothing is captured, so this is as fast as a plain forward pass. A text longer than the model's window is cut to the
    window.
    """
    ids = generator.encode(text)
    kept = ids[-most:]
    if generator.forgets:
        kept = kept[-(generator.window - 1) :]
    with torch.inference_mode():
        before = ids[: len(ids) - len(kept)] if not generator.forgets else []
        (logits,) = generator.model(torch.tensor([[BEGIN, *before, *kept]], device=generator.device)).float()
    return _guesses(generator.tokenizer, logits[len(before) : -1], kept), len(ids) - len(kept)


def _guesses(tokenizer: Tokenizer, logits: Tensor, ids: Sequence[int]) -> list[Guess]:
    """The probability of each token given those before it, and the most likely alternatives."""
    if not ids:
        return []
    probabilities = logits.softmax(-1)
    best = probabilities.topk(min(ALTERNATIVES, probabilities.shape[1]))
    own = probabilities.gather(1, torch.tensor(ids, device=logits.device)[:, None])[:, 0].tolist()
    pieces = tokenizer.pieces(ids)
    return [
        Guess(piece, piece, probability, list(map(Option, tokenizer.pieces(tokens), values)))
        for piece, probability, tokens, values in zip(pieces, own, best.indices.tolist(), best.values.tolist())
    ]
