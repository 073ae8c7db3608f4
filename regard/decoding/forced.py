"""Forced decoding: how likely a decoder finds a given text, read in one pass with teacher forcing."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.opening import first_ids
from regard.states import StepwiseDecoder
from regard.types import Memory


@torch.inference_mode()
def forced_log_probs(
    decoder: StepwiseDecoder, memory: Memory, targets: Int[Tensor, "B T"], prefix: Int[Tensor, "B P"] | None = None
) -> Float[Tensor, "B T"]:
    """The log-probability of each target token, given the memory, the prefix and the tokens before it.

    Neither rules nor a length penalty count, as in the `log_probability` of a hypothesis. `targets` end with END where
    the end counts; what stands at padding has no meaning.
    """
    opening = first_ids(len(targets), prefix, targets.device)
    fed = torch.cat([opening, targets[:, :-1]], 1)
    logits, _ = decoder.step(fed, decoder.start(memory, 1, 0))
    log_probs = logits[:, opening.shape[1] - 1 :].log_softmax(-1, dtype=torch.float32)
    return log_probs.gather(2, targets[..., None])[..., 0]
