"""The logit lens: the state after each layer of a decoder, through its last norm and its output projection.

Of a decoder with attention the state of each layer takes the place of the top one's in the readout; the context is that
of the real run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.data.tokenizer._base import Tokenizer
from regard.decoder._base import Decoder
from regard.decoder.attentional import AttentionalDecoder
from regard.decoder.recurrent import RecurrentDecoder
from regard.decoder.universal import UniversalDecoder
from regard.errors import UserError
from regard.inspection.record.interventions import record_activations
from regard.inspection.record.parts import DECODER, OUTPUT, Part, parts_of
from regard.inspection.trace.logit_lens import LensLayer, LogitLens
from regard.inspection.trace.next_token import Option

LIKELIEST = 5
EMBEDDING, FINAL = "embedding", "output"

Logits = Float[Tensor, "T V"]


@torch.inference_mode()
def layer_logits(model: nn.Module, forward: Callable[[], Any]) -> dict[str, Logits]:
    """The logits after each layer, by its name, of the first example of one pass; those of the last are the model's."""
    decoder = getattr(model, DECODER, None)
    layers = [one.layer for one in parts_of(model) if one.side == DECODER]
    if not isinstance(decoder, Decoder) or not layers:
        raise UserError("the logit lens shows what a decoder would write; this model has none")
    parts = {f"layer {layer}": Part(DECODER, layer, OUTPUT) for layer in layers}
    norm = getattr(decoder, "norm", None)
    if norm is not None:
        parts = {EMBEDDING: Part(DECODER), **parts}
    elif not isinstance(decoder, (AttentionalDecoder, RecurrentDecoder)):
        raise UserError("the logit lens knows Transformers and recurrent decoders, not this one")
    readouts: list[Tensor] = []
    final: list[Tensor] = []
    hooks = []
    if isinstance(decoder, AttentionalDecoder):
        hooks.append(decoder.readout.register_forward_pre_hook(lambda _, given: readouts.append(given[0])))
    if isinstance(decoder, UniversalDecoder) and norm is not None:
        hooks.append(norm.register_forward_hook(lambda _, given, output: final.append(output)))
    try:
        found = record_activations(model, list(parts.values()), forward)
    finally:
        for hook in hooks:
            hook.remove()
    states = {name: found[part][0][None] for name, part in parts.items()}
    if norm is not None:
        logits = {name: decoder.project(norm(state).to(state.dtype)) for name, state in states.items()}
    elif isinstance(decoder, AttentionalDecoder):
        given = torch.cat([one[:1].reshape(1, -1, one.shape[-1]) for one in readouts], 1)
        logits = {name: decoder.project(_read_out(decoder, given, state)) for name, state in states.items()}
    else:
        logits = {name: decoder.project(state) for name, state in states.items()}
    if final:  # after halting: the mean of the states of all steps
        logits[FINAL] = decoder.project(final[-1][:1])
    return {name: rows[0].float() for name, rows in logits.items()}


def _read_out(decoder: AttentionalDecoder, given: Tensor, state: Tensor) -> Tensor:
    """The readout of the decoder, with another state in place of the top layer's."""
    combined = decoder.readout(torch.cat([state, given[..., state.shape[-1] :]], -1))
    return combined.unflatten(-1, (-1, 2)).amax(-1) if decoder.before else torch.tanh(combined)


def logit_lens(
    model: nn.Module, forward: Callable[[], Any], tokenizer: Tokenizer, read: Sequence[str], written: Sequence[int]
) -> LogitLens:
    """The lens over one pass that read `read` and whose tokens are `written`."""
    rows = torch.arange(len(written))
    own = torch.tensor(list(written), dtype=torch.long)
    layers = []
    for name, logits in layer_logits(model, forward).items():
        probabilities = logits.cpu().softmax(-1)
        chosen = probabilities[rows, own]
        best = probabilities.topk(min(LIKELIEST, probabilities.shape[1]))
        layers.append(
            LensLayer(
                name,
                [
                    list(map(Option, tokenizer.pieces(ids), values))
                    for ids, values in zip(best.indices.tolist(), best.values.tolist())
                ],
                chosen.tolist(),
                ((probabilities > chosen[:, None]).sum(-1) + 1).tolist(),
            )
        )
    return LogitLens(list(read), tokenizer.pieces(list(written)), layers)
