"""Several models as one: at each step the probabilities of the next token are averaged.

The mean of probabilities, not of logits: sum over m of p_m(y | x, y before) / M. Whatever has `encode` and a stepwise
decoder takes part, so architectures may be mixed. Knows nothing of texts; regard/ensembling.py checks the vocabularies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.decoder._base import Decoder
from regard.model.seq2seq import Seq2Seq
from regard.types import Memory, State


class Ensemble(nn.Module):
    """The models of an ensemble, with the interface of one that a translator needs."""

    def __init__(self, models: Sequence[Seq2Seq]) -> None:
        super().__init__()
        self.members: Iterable[Seq2Seq] = nn.ModuleList(models)  # type: ignore[assignment]
        self.decoder = EnsembleDecoder([model.decoder for model in models], [model.encoder.width for model in models])

    def encode(self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"]) -> Memory:
        """The memories of all models side by side: their states (B, S, sum of widths), and a list of final states."""
        memories = [model.encode(source, mask) for model in self.members]
        states = torch.cat([memory.states for memory in memories], -1)
        return Memory(states, memories[0].mask, [memory.final for memory in memories])

    def forward(
        self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"], target: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """The logits of each next token, given the reference before it (teacher forcing)."""
        return self.decoder.step(target, self.decoder.start(self.encode(source, mask), beams=1, capacity=0))[0]


class EnsembleDecoder(nn.Module):
    """The decoders of an ensemble as one: its state has a list of theirs."""

    def __init__(self, decoders: Sequence[Decoder], widths: Sequence[int]) -> None:
        """`widths` are those of their memories."""
        super().__init__()
        self.decoders: Iterable[Decoder] = nn.ModuleList(decoders)  # type: ignore[assignment]
        self.widths = list(widths)

    def start(self, memory: Memory, beams: int, capacity: int) -> State:
        shares = memory.states.split(self.widths, -1)
        states = [
            decoder.start(Memory(share, memory.mask, final), beams, capacity)
            for decoder, share, final in zip(self.decoders, shares, memory.final, strict=True)
        ]
        # Which beam wrote which position is the same for all of them, so those with a cache share one `origin`.
        origin = next((state.origin for state in states if state.origin is not None), None)
        return State(
            beams,
            torch.zeros((), dtype=torch.long, device=memory.states.device),
            [state.memory for state in states],
            [state.cache for state in states],
            origin,
            [state.carry for state in states],
        )

    def step(self, ids: Int[Tensor, "R T"], state: State) -> tuple[Float[Tensor, "R T V"], State]:
        return self._step("step", ids, state)

    def step_last(self, ids: Int[Tensor, "R T"], state: State) -> tuple[Float[Tensor, "R 1 V"], State]:
        return self._step("step_last", ids, state)

    def _step(self, name: str, ids: Int[Tensor, "R T"], state: State) -> tuple[Float[Tensor, "R T V"], State]:
        logits, carries = [], []
        for decoder, memory, cache, carry in zip(self.decoders, state.memory, state.cache, state.carry, strict=True):
            own = State(state.beams, state.position, memory, cache, state.origin if cache else None, carry)
            found, own = getattr(decoder, name)(ids, own)
            logits.append(found)
            carries.append(own.carry)
        return mean_logits(logits), replace(state, position=state.position + ids.shape[1], carry=carries)


def mean_logits(logits: Sequence[Float[Tensor, "*N V"]]) -> Float[Tensor, "*N V"]:
    """Logits whose softmax is the mean of the softmaxes; where all models agree, those of the first to the last bit."""
    first = logits[0].float()
    log_probs = torch.stack([one.log_softmax(-1, dtype=torch.float32) for one in logits])
    largest = log_probs.amax(0)
    centre = largest.masked_fill(largest == -torch.inf, 0.0)
    mean = centre + (log_probs - centre).exp().mean(0).log()
    return torch.where(mean == log_probs[0], first, mean + first.logsumexp(-1, keepdim=True))
