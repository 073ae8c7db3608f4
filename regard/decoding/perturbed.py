"""A decoder with random numbers added to its log-probabilities, so that any search becomes random.

With Gumbel noise the likeliest token is a sample (the Gumbel-max trick), and greedy decoding is sampling. A search for
the best output under constraints then gives a random output that has them (perturb and MAP, Papandreou and Yuille
2011): not an exact sample of the model given the constraints, which no search step by step can draw.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.sampling import distribution
from regard.states import StepwiseDecoder
from regard.types import Memory, State

OUTSIDE = 30.0
"""By how much tokens outside of top-k and top-p lose: a constraint may need them, nothing else takes them."""
SPREAD = 1_000_003
"""Seeds of neighbouring positions are this far apart."""


class PerturbedDecoder:
    """Log-probabilities over the temperature, plus noise. It depends on seed, position, beam and token alone: each
    sentence of a batch has the same, so its output does not depend on the others. Not for CUDA graphs."""

    def __init__(self, decoder: StepwiseDecoder, temperature: float, top_k: int, top_p: float, seed: int) -> None:
        self.decoder, self.temperature, self.top_k, self.top_p, self.seed = decoder, temperature, top_k, top_p, seed

    def start(self, memory: Memory, beams: int, capacity: int) -> State:
        return self.decoder.start(memory, beams, capacity)

    def step(self, ids: Int[Tensor, "R T"], state: State) -> tuple[Float[Tensor, "R 1 V"], State]:
        position = int(state.position)
        step = getattr(self.decoder, "step_last", self.decoder.step)
        logits, state = step(ids, state)
        log_probs = logits[:, -1].log_softmax(-1, dtype=torch.float32)
        probs, tokens = distribution(log_probs, self.temperature, self.top_k, self.top_p)
        kept = probs > 0
        if tokens is not None:
            kept = torch.zeros_like(log_probs, dtype=torch.bool).scatter(1, tokens, kept)
        generator = torch.Generator().manual_seed((self.seed + SPREAD * position) % (1 << 63))
        uniform = torch.rand(state.beams, log_probs.shape[1], generator=generator).clamp(1e-9, 1 - 1e-7)
        noise = -(-uniform.log()).log().to(log_probs.device).repeat(len(log_probs) // state.beams, 1)
        noisy = log_probs / self.temperature + torch.where(kept, noise, -OUTSIDE)
        return noisy[:, None], state
