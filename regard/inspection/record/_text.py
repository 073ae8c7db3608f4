"""What recording a classifier, a tagger and a masked language model have in common: one forward pass over one text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard.data.input.text import Text
from regard.errors import UserError
from regard.inspection.record.arithmetic.selection import calculator
from regard.inspection.record.gradients import gradients_of
from regard.inspection.record.layers import layers_of
from regard.inspection.trace.base import SOURCE, Side
from regard.inspection.trace.gradients import Gradients
from regard.inspection.trace.next_token import Guess
from regard.inspection.trace.text import TextTrace
from regard.layers.capture import Captured, capture

if TYPE_CHECKING:
    from regard.task._examples import ExampleTask

LogProbability = Callable[[Tensor, int], Tensor]
"""From the ids of one text, (1, T), and the index of an output, to the log-probability of that output."""


def text_trace(
    task: ExampleTask,
    name: str,
    side: Side,
    ids: Sequence[int],
    captured: Captured,
    guesses: list[Guess],
    said: str,
    log_probability: LogProbability,
) -> TextTrace:
    """The trace of one text, with what it needs to compute gradients and arithmetic later."""
    lengths = {SOURCE: len(ids)}
    trace = TextTrace(
        model=name,
        source=side,
        read=list(side.tokens),
        guesses=guesses,
        said=said,
        **layers_of(task, captured, lengths),
    )

    def source() -> Tensor:
        return torch.tensor([list(ids)], device=task.device)

    def compute_gradients(position: int) -> Gradients:
        given = trace.guesses[position].given
        return gradients_of(task.model, lambda: log_probability(source(), position), position, given, lengths)

    trace.compute_gradients = compute_gradients
    trace.compute_calculation = calculator(task.model, lambda: logits_of(task, source()))
    return trace


def token_ids(task: ExampleTask, text: str | list[str]) -> list[int]:
    """The ids of a text, or of its words, that fits into one forward pass."""
    ids = task.pair.input.encode(text).tolist()
    longest = task.recipe.data.max_length
    if not text or (isinstance(text, str) and not text.strip()):
        raise UserError("there is nothing to inspect: the text is empty")
    if len(ids) > longest:
        raise UserError(f"the text has {len(ids)} tokens, but this model reads at most {longest}; use a shorter text")
    return ids


def forward(task: ExampleTask, ids: Sequence[int], targets: Sequence[int] | None = None) -> tuple[Tensor, Captured]:
    """Runs the model on one text: the logits, and what was captured. `targets`: positions of the blanks."""
    source = torch.tensor([list(ids)], device=task.device)
    with capture(task.model) as captured:
        logits = logits_of(task, source, targets)
    return logits, captured


def logits_of(task: ExampleTask, source: Tensor, targets: Sequence[int] | None = None) -> Tensor:
    more = [] if targets is None else [torch.tensor([list(targets)], device=task.device)]
    return task.model(source, torch.ones_like(source, dtype=torch.bool), *more).float()


def text_input(task: ExampleTask) -> Text:
    """The task's input, which is text."""
    reader = task.pair.input
    assert isinstance(reader, Text)
    return reader
