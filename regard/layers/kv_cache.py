"""The KV cache: keys and values of every position written so far. Beams share it, so none of it is ever copied.

An entry is written once and never moved. Each position has one entry per beam, and `origin` says which beam wrote each
position of a beam's past. When a search reorders its beams, only `origin` is reordered (`select_` in types.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.layers.attend import Rotation, attention_bias
from regard.types import State, Tree, map_tree

if TYPE_CHECKING:
    from regard.layers.relative_position._base import RelativePosition

KVCache = Tree
"""The entries of one layer: tensors (B, capacity, beams, ...)."""


@dataclass
class CachePositions:
    """The cache positions that a step writes, and those that each beam may read."""

    positions: Int[Tensor, "T"]
    length: int
    """How many positions are read, from the first."""
    past: Bool[Tensor, "1 T length"] | None
    """What each new token may attend to; None: everything up to `length`."""
    origin: Int[Tensor, "R L"] | None
    """As in State; None: there is one beam per sentence."""
    beams: int
    dtype: torch.dtype
    relative: Float[Tensor, "H T length"] | None = None
    """What relative positions add to the scores."""
    rotation: Rotation | None = None
    """How they rotate the new tokens' queries and keys."""

    @cached_property
    def bias(self) -> Float[Tensor, "..."] | None:
        """The beams' own pasts among the entries of all beams of their sentence, as a bias, plus relative positions."""
        own, relative = self.past, self.relative
        if self.origin is not None:
            own = self.origin[:, None, : self.length, None] == _numbers(self.origin, self.beams)
            own = own.expand(-1, len(self.positions), -1, -1)
            if self.past is not None:
                own = own & self.past[..., None]
            sentences, queries = len(self.origin) // self.beams, self.beams * len(self.positions)
            own = own.reshape(sentences, queries, self.length * self.beams)
            if relative is not None:  # the same between any two beams
                relative = relative[:, None, :, :, None].expand(-1, self.beams, -1, -1, self.beams)
                relative = relative.reshape(-1, *own.shape[1:])
        if own is None:
            return None if relative is None else relative[None].to(self.dtype)
        return attention_bias(own, self.dtype, relative)

    @cached_property
    def of_queries(self) -> Int[Tensor, "Q"]:
        """The positions of all queries of a sentence, beam after beam."""
        return self.positions if self.beams == 1 else self.positions.repeat(self.beams)

    def write(self, cache: KVCache, entries: Tree) -> None:
        """Stores entries (R, T, ...) at `positions`."""
        if isinstance(cache, dict):
            for name in cache:
                self.write(cache[name], entries[name])
        else:
            entries = entries.to(cache.dtype).unflatten(0, (len(cache), -1))  # (B, beams, T, ...)
            cache.index_copy_(1, self.positions, entries.transpose(1, 2))

    def own_past(self, cache: KVCache) -> Tree:
        """Each beam's own past, (R, length, ...): a copy, for attentions that cannot read the shared entries."""

        def gathered(entries: Tensor) -> Tensor:
            if self.origin is None:
                return entries[:, : self.length, 0]
            sentence = torch.arange(len(self.origin), device=entries.device)[:, None] // self.beams
            position = torch.arange(self.length, device=entries.device)
            return entries[sentence, position, self.origin[:, : self.length].long()]

        return map_tree(gathered, cache)


def cache_positions(
    ids: Int[Tensor, "R T"],
    state: State,
    dtype: torch.dtype,
    relative_position: RelativePosition | None = None,
) -> CachePositions:
    """The positions of the tokens of a step; notes in `state.origin` which beam writes them. `dtype` is the bias's."""
    length = ids.shape[1]
    positions = state.position + torch.arange(length, device=ids.device)
    rotation = None if relative_position is None else relative_position.rotation(positions)
    if rotation is not None and dtype != rotation[0].dtype:  # once for all layers
        rotation = rotation[0].to(dtype), rotation[1].to(dtype)
    if not state.cache:  # all tokens at once
        relative = None if relative_position is None else relative_position(positions, positions)
        past = None if relative is None else (positions <= positions[:, None])[None]
        return CachePositions(positions, length, past, None, state.beams, dtype, relative, rotation)
    assert state.origin is not None
    on_cpu = ids.device.type == "cpu"
    # Reading the position costs nothing on a CPU: empty entries are left out. A GPU would wait: they are masked.
    read = int(state.position) + length if on_cpu else state.origin.shape[1]
    keys = torch.arange(read, device=ids.device)
    past = None if length == 1 and on_cpu else (keys <= positions[:, None])[None]
    relative = None if relative_position is None else relative_position(positions, keys)
    if state.beams == 1:
        return CachePositions(positions, read, past, None, 1, dtype, relative, rotation)
    writers = _numbers(state.origin, state.beams).repeat(len(ids) // state.beams)
    state.origin.index_copy_(1, positions, writers[:, None].expand(-1, length))
    return CachePositions(positions, read, past, state.origin, state.beams, dtype, relative, rotation)


def _numbers(origin: Tensor, beams: int) -> Tensor:
    return torch.arange(beams, dtype=origin.dtype, device=origin.device)
