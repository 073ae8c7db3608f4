"""What recording a classifier, a tagger and a masked language model have in common: one forward pass over one text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from regard.data.input.text import Text
from regard.errors import UserError
from regard.inspection.record.arithmetic.selection import calculator
from regard.inspection.record.attribution import Axis, Candidates, attributor
from regard.inspection.record.gradients import gradients_of
from regard.inspection.record.layers import layers_of
from regard.inspection.trace.base import NO_WORD, SOURCE, Side
from regard.inspection.trace.gradients import Gradients
from regard.inspection.trace.next_token import Guess
from regard.inspection.trace.text import TextTrace
from regard.layers.capture import Captured, capture

if TYPE_CHECKING:
    from regard.task._examples import ExampleTask


def text_trace(
    task: ExampleTask,
    name: str,
    side: Side,
    ids: Sequence[int],
    captured: Captured,
    guesses: list[Guess],
    said: str,
    log_probabilities: Callable[[Tensor], Float[Tensor, "B G C"]],
    chosen: Sequence[int],
    candidates: Candidates,
    read_at: Sequence[Sequence[int]],
) -> TextTrace:
    """The trace of one text, with what it needs to compute gradients, arithmetic and attribution later.

    `log_probabilities` are those of every candidate for each guess, of texts (B, T); `chosen` is the index of the
    one that was guessed. Each guess is read off some positions of
    the encoder, `read_at`.
    """
    lengths = {SOURCE: len(ids)}
    trace = TextTrace(
        model=name,
        source=side,
        read=list(side.tokens),
        guesses=guesses,
        said=said,
        **layers_of(task, captured, lengths),
    )

    def source(copies: int = 1) -> Tensor:
        return torch.tensor([list(ids)], device=task.device).expand(copies, -1)

    def compute_gradients(position: int) -> Gradients:
        def log_probability() -> Tensor:
            return log_probabilities(source())[0, position, chosen[position]]

        return gradients_of(task.model, log_probability, position, trace.guesses[position].given, lengths)

    trace.compute_gradients = compute_gradients
    trace.compute_calculation = calculator(task.model, lambda: logits_of(task, source()))
    trace.compute_attribution = attributor(
        task.model,
        lambda copies, outputs: log_probabilities(source(copies)),
        chosen,
        {SOURCE: Axis(side.tokens, side.words, side.word_of)},
        Axis([f"{guess.about}: {guess.given}" if guess.about else guess.given for guess in guesses]),
        candidates,
        read_at,
    )
    return trace


def token_ids(task: ExampleTask, text: str | list[str]) -> list[int]:
    """The ids of a text, or of its words, that fits into one forward pass."""
    if text_input(task).spelled:
        raise UserError(
            "this model also reads how words are spelled, which no picture shows yet; use it with regard tag"
        )
    ids = task.pair.input.encode(text)
    count, longest = len(text_input(task).bare(ids)), task.recipe.data.max_length
    if not text or (isinstance(text, str) and not text.strip()):
        raise UserError("there is nothing to inspect: the text is empty")
    if count > longest:
        raise UserError(f"the text has {count} tokens, but this model reads at most {longest}; use a shorter text")
    return ids.tolist()


def with_enclosing(reader: Text, word_of: list[int]) -> list[int]:
    """The word of each token of a text, of which BEGIN and END have none."""
    return [NO_WORD, *word_of] if reader.enclosed else word_of


def forward(task: ExampleTask, ids: Sequence[int], targets: Sequence[int] | None = None) -> tuple[Tensor, Captured]:
    """Runs the model on one text: the logits, and what was captured. `targets`: positions of the blanks."""
    source = torch.tensor([list(ids)], device=task.device)
    with capture(task.model) as captured:
        logits = logits_of(task, source, targets)
    return logits, captured


def logits_of(task: ExampleTask, source: Tensor, targets: Sequence[int] | None = None) -> Tensor:
    more = [] if targets is None else [torch.tensor([list(targets)], device=task.device).expand(len(source), -1)]
    return task.model(source, torch.ones_like(source, dtype=torch.bool), *more).float()


def text_input(task: ExampleTask) -> Text:
    """The task's input, which is text."""
    reader = task.pair.input
    assert isinstance(reader, Text)
    return reader
