"""A step of a search as a CUDA graph: recorded once for each shape and replayed from then on.

A GPU needs a fraction of a millisecond for a step, Python several to ask for its hundred small parts. A graph is asked
for as a whole. It reads and writes the very tensors it was recorded with, so what is searched next is copied into them.
"""

from __future__ import annotations

import logging
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from regard.decoding.watching import watcher
from regard.types import Tree, map_tree

MOST = 24
"""Recordings that are kept for a decoder: those used last."""
_recordings: WeakKeyDictionary[Any, OrderedDict[Hashable, _Recording]] = WeakKeyDictionary()
_refused: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()
"""Decoders whose steps cannot be recorded."""


def wanted(device: torch.device) -> bool:
    return device.type == "cuda" and watcher() is None


class Steps:
    """A search whose steps are recorded where that is possible; for the rest it is that search."""

    def __init__(self, search: Any, decoder: Any) -> None:
        self._recording = _find(search, decoder) if _recordable(decoder) else None
        self._search = self._recording.search if self._recording else search

    def advance(self) -> None:
        if self._recording is None:
            self._search.advance()
        elif not self._recording.advance():
            self._recording = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._search, name)


class _Recording:
    """A search and the graph of its step. The first step of the first use is taken as it is, the second is recorded."""

    def __init__(self, search: Any, decoder: Any) -> None:
        # A recording lives as long as its decoder, which it therefore must not keep alive itself.
        self.search = replace(search, decoder=weakref.proxy(decoder))
        self._decoder = weakref.ref(decoder)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._warm = False

    def load(self, search: Any) -> None:
        for kept, new in zip(_leaves(self.search.tensors()), _leaves(search.tensors()), strict=True):
            kept.copy_(new)

    def advance(self) -> bool:
        """False when the step could not be recorded; it was taken all the same."""
        if self._graph is not None:
            self._graph.replay()
        elif not self._warm:
            self.search.advance()
            self._warm = True
        else:
            return self._record()
        return True

    def _record(self) -> bool:
        try:
            self._graph = _graph(self.search.advance)
        except RuntimeError as error:
            _refused[self._decoder()] = True
            _recordings.pop(self._decoder(), None)
            reason = str(error).split("\n")[0]
            logging.getLogger("regard").warning("regard: steps are taken one by one, not as a graph: %s", reason)
            self.search.advance()
            return False
        self._graph.replay()
        return True


def _graph(step: Callable[[], None]) -> torch.cuda.CUDAGraph:
    """What a step does, without doing it."""
    graph, dtype = torch.cuda.CUDAGraph(), torch.get_autocast_dtype("cuda")
    # Weights that autocast has cast and keeps would be part of the recording, and stale when they change.
    with (
        torch.autocast("cuda", dtype, torch.is_autocast_enabled("cuda"), cache_enabled=False),
        torch.cuda.graph(graph, capture_error_mode="thread_local"),
    ):
        step()
    return graph


def _find(search: Any, decoder: Any) -> _Recording:
    kept = _recordings.setdefault(decoder, OrderedDict())
    key = _key(search)
    if key in kept:
        kept.move_to_end(key)
        kept[key].load(search)
    else:
        kept[key] = _Recording(search, decoder)
        while len(kept) > MOST:
            kept.popitem(last=False)
    return kept[key]


def _recordable(decoder: Any) -> bool:
    """Not one that is watched (a replayed step tells nobody anything), nor one that could not be recorded before."""
    modules = decoder.modules() if isinstance(decoder, torch.nn.Module) else ()
    return decoder not in _refused and not any(getattr(module, "watcher", None) for module in modules)


def _key(search: Any) -> Hashable:
    device = search.over.device
    weights = tuple(p.data_ptr() for p in search.decoder.parameters()) if hasattr(search.decoder, "parameters") else ()
    return (
        search.setting(),
        tuple((t.shape, t.dtype) for t in _leaves(search.tensors())),
        torch.is_autocast_enabled(device.type) and torch.get_autocast_dtype(device.type),
        device,
        weights,
    )


def _leaves(tree: Tree) -> list[Tensor]:
    found: list[Tensor] = []
    map_tree(lambda t: found.append(t) or t, tree)  # type: ignore[func-returns-value]
    return found
