"""Attention rollout (Abnar and Zuidema 2020): the attention of all layers multiplied, from the inputs to an output.

Heads are averaged and every residual connection counts one half. In a decoder each layer adds what its self-attention
reads of the words written before and what its cross-attention reads of the source. Feed-forward layers are ignored, and
so is which output was chosen: this says what was read, not what it did.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from regard.inspection.record.attribution._subject import Found, Subject
from regard.inspection.trace.base import CROSS, SOURCE, TARGET, Attention
from regard.layers.attention._base import Attention as AttentionLayer
from regard.layers.cell._base import Cell
from regard.layers.ssru import SSRU

__all__ = ["rollout"]

CONTRASTS = False
"""The weights are the same whichever candidate is asked about."""


def rollout(subject: Subject) -> Found:
    """The share of each unit in each output; all tokens together sum to one."""
    found = {side: own[[at for at, _ in subject.outputs]] for side, own in rolled_out(subject).items()}
    values = subject.by_unit({side: torch.from_numpy(own) for side, own in found.items()})
    return Found(values.astype(np.float32), mean=True)


def unsuitable(model: nn.Module) -> str:
    """Why this model cannot be explained by this method; empty if it can."""
    if not any(isinstance(one, AttentionLayer) for one in model.modules()):
        return "this model has no attention"
    if any(isinstance(one, Cell | SSRU) for one in model.modules()):
        return "this model is recurrent, and rollout would leave out what its states carry"
    return ""


def rolled_out(subject: Subject) -> dict[str, np.ndarray]:
    """The share of each token of each side in each output position."""
    layers = {kind: _means(subject.attention, kind) for kind in (SOURCE, TARGET, CROSS)}
    counts = {side: own.shape[1] for side, own in subject.vectors.items()}
    source = np.eye(counts.get(SOURCE, 0))
    for weights in layers[SOURCE]:
        source = (weights @ source + source) / 2
    if subject.pooled is not None:
        return {SOURCE: np.stack([source[list(positions)].mean(0) for positions in subject.pooled])}
    written = counts[TARGET]
    # The share of the source, then that of the written tokens, in each position of the decoder.
    shares = np.concatenate([np.zeros((written, counts.get(SOURCE, 0))), np.eye(written)], 1)
    encoded = np.concatenate([source, np.zeros((len(source), written))], 1)
    for number, weights in enumerate(layers[TARGET]):
        shares = (weights[:written, :written] @ shares + shares) / 2
        if layers[CROSS]:
            shares = (layers[CROSS][number][:written] @ encoded + shares) / 2
    return {SOURCE: shares[:, : len(source)], TARGET: shares[:, len(source) :]}


def _means(layers: Sequence[Attention], kind: str) -> list[np.ndarray]:
    """The weights of each layer of a kind, from the first to the last, averaged over its heads."""
    own = sorted((one for one in layers if one.kind == kind), key=lambda one: one.layer)
    return [one.weights.mean(0, dtype=np.float64) for one in own]
