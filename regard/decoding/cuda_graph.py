"""CUDA graphs of search steps: captured once for each shape, then replayed.

A GPU needs a fraction of a millisecond for a step, Python several to launch its hundred small kernels; a graph is
launched as a whole. It reads and writes the tensors it was captured with, so the next search is copied into them.
"""

from __future__ import annotations

import logging
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import replace
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from regard.types import Tree, map_tree

MAX_GRAPHS = 24
"""Graphs kept for each decoder: the most recently used ones."""
_graphs: WeakKeyDictionary[Any, OrderedDict[Hashable, _CapturedSearch]] = WeakKeyDictionary()
_failed: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()
"""Decoders whose steps cannot be captured."""


class GraphedSearch:
    """A search whose steps are replayed as a CUDA graph where possible; in all else it is that search."""

    def __init__(self, search: Any, decoder: Any) -> None:
        self._captured = _find(search, decoder) if _cuda_graphable(decoder) else None
        if self._captured:
            self._captured.user = weakref.ref(self)
        self._search = self._captured.search if self._captured else search

    def advance(self) -> None:
        if self._captured is None:
            self._search.advance()
        elif not self._captured.advance():
            self._captured = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._search, name)


class _CapturedSearch:
    """A search and the graph of its step. The first step of its first use runs as it is, the second is captured."""

    def __init__(self, search: Any, decoder: Any) -> None:
        # A graph lives as long as its decoder, so it must not keep the decoder alive itself.
        self.search = replace(search, decoder=weakref.proxy(decoder))
        self._decoder = weakref.ref(decoder)
        self.user: Callable[[], GraphedSearch | None] = lambda: None
        """The search that is in it now, until that is no longer used."""
        self._graph: torch.cuda.CUDAGraph | None = None
        self._warm = False

    def load(self, search: Any) -> None:
        for own, new in zip(_leaves(self.search.tensors()), _leaves(search.tensors()), strict=True):
            own.copy_(new)

    def advance(self) -> bool:
        """Takes a step; False if it could not be captured (the step was taken all the same)."""
        if self._graph is not None:
            self._graph.replay()
        elif not self._warm:
            self.search.advance()
            self._warm = True
        else:
            return self._capture()
        return True

    def _capture(self) -> bool:
        try:
            self._graph = _graph(self.search.advance)
        except RuntimeError as error:
            _failed[self._decoder()] = True
            _graphs.pop(self._decoder(), None)
            reason = str(error).split("\n")[0]
            logging.getLogger("regard").warning("regard: decoding runs without CUDA graphs: %s", reason)
            self.search.advance()
            return False
        self._graph.replay()
        return True


def _graph(step: Callable[[], None]) -> torch.cuda.CUDAGraph:
    """The graph of a step, which is captured but not run."""
    graph, dtype = torch.cuda.CUDAGraph(), torch.get_autocast_dtype("cuda")
    # Weights in autocast's cache would become part of the graph, and stale when the weights change.
    with (
        torch.autocast("cuda", dtype, torch.is_autocast_enabled("cuda"), cache_enabled=False),
        torch.cuda.graph(graph, capture_error_mode="thread_local"),
    ):
        step()
    return graph


def _find(search: Any, decoder: Any) -> _CapturedSearch:
    graphs, shape = _graphs.setdefault(decoder, OrderedDict()), _key(search)
    # Streams may take turns: each needs tensors of its own.
    key = next(key for n in count() if (key := (shape, n)) not in graphs or graphs[key].user() is None)
    if key in graphs:
        graphs.move_to_end(key)
        graphs[key].load(search)
    else:
        graphs[key] = _CapturedSearch(search, decoder)
        while len(graphs) > MAX_GRAPHS:
            graphs.popitem(last=False)
    return graphs[key]


def _cuda_graphable(decoder: Any) -> bool:
    """False for a decoder with an observer (a replayed graph calls no Python) or one that failed before."""
    modules = decoder.modules() if isinstance(decoder, torch.nn.Module) else ()
    return decoder not in _failed and not any(vars(module).get("observer") for module in modules)


def _key(search: Any) -> Hashable:
    device, decoder = search.over.device, search.decoder
    return (
        search.setting(),
        tuple((t.shape, t.dtype) for t in _leaves(search.tensors())),
        torch.is_autocast_enabled(device.type) and torch.get_autocast_dtype(device.type),
        device,
        tuple(p.data_ptr() for p in decoder.parameters()) if isinstance(decoder, torch.nn.Module) else (),
    )


def _leaves(tree: Tree) -> list[Tensor]:
    found: list[Tensor] = []
    map_tree(lambda t: found.append(t) or t, tree)  # type: ignore[func-returns-value]
    return found
