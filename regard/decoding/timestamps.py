"""The rule of a transcript with times (Radford et al. 2022, 2.3): tokens of times enclose the text of each segment."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.rules import Rule
from regard.types import END

LATEST_START = 50
"""The first segment begins within so many steps of time: a second, as in the authors' own code."""


class Timestamps(Rule):
    """Ids from `first_time` on are times, in order; those from 4 to `text_end` are text.

    A text begins with a time; times come in pairs, the end of a segment and the beginning of the next, or one alone
    before END; none lies before the last one. Where all times together are likelier than every other token, it is a
    time. The token before `first_time`, which asks for none, is never written.
    """

    def __init__(self, first_time: int, text_end: int, forced: int) -> None:
        """`forced` is the length of the prefix."""
        super().__init__(setting=(first_time, text_end, forced))
        self.first_time, self.text_end, self.forced = first_time, text_end, forced

    def __call__(
        self, history: Int[Tensor, "R T"], log_probs: Float[Tensor, "R V"], written: Int[Tensor, ""] | None = None
    ) -> None:
        device, first = log_probs.device, self.first_time
        if written is None:
            written = torch.tensor(history.shape[1], device=device)
        own = written - self.forced
        after_time = (own >= 1) & (self._before(history, written, 1) >= first)
        after_two = (own < 2) | (self._before(history, written, 2) >= first)
        begun, ended = (after_time & after_two)[:, None], (after_time & ~after_two)[:, None]

        positions = torch.arange(history.shape[1], device=device)
        valid = (positions >= self.forced) & (positions < written)
        times = torch.where(valid & (history >= first), history, 0)
        # One more, since an empty history has no maximum.
        latest = torch.cat([times, times.new_zeros(len(times), 1)], 1).amax(1, keepdim=True)
        earliest = torch.where(latest > 0, latest + (~ended).long(), first)

        ids = torch.arange(log_probs.shape[1], device=device)
        is_time, is_text = ids >= first, (ids > END) & (ids < self.text_end)
        opening = own == 0
        forbidden = (begun & is_time) | (ended & is_text) | (is_time & (ids < earliest)) | (ids == first - 1)
        forbidden = forbidden | (opening & (~is_time | (ids > first + LATEST_START)))
        log_probs.masked_fill_(forbidden, -torch.inf)
        together = log_probs[:, first:].logsumexp(1, keepdim=True)
        log_probs[:, :first].masked_fill_(together > log_probs[:, :first].amax(1, keepdim=True), -torch.inf)

    @staticmethod
    def _before(history: Int[Tensor, "R T"], written: Int[Tensor, ""], back: int) -> Int[Tensor, "R"]:
        """The token `back` places before the next one; its value has no meaning where there is none."""
        if not history.shape[1]:
            return history.new_zeros(len(history))
        return history.index_select(1, (written - back).clamp(min=0)[None])[:, 0]
