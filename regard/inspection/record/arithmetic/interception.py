"""Intercept the inputs and outputs of one attention, and of the modules around it, in a forward pass.

The pass is in float32 and not observed, so it uses the same fused kernels as always.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from regard.decoder.attentional import AttentionalDecoder
from regard.errors import UserError
from regard.layers.attend import Rotation, as_boolean
from regard.layers.attention._base import Attention, rotated
from regard.layers.embedding import TokenEmbedding
from regard.layers.fast_linear import FastLinear
from regard.layers.linear import Linear


@dataclass
class Call:
    """One call of an attention, for the first example of the batch."""

    query: Tensor
    """(T, D)"""
    memory: Tensor
    """(S, M)"""
    visible: Tensor
    """(T, S), True where attention is allowed."""
    relative: Tensor | None
    """(H, T, S), what relative positions add to the scores."""
    places: Tensor
    """(T,) the positions of the queries."""
    output: Tensor
    """(T, C)"""
    rotation: Rotation | None = None
    """How relative positions rotate the queries and keys of self-attention."""


@dataclass
class Intercepted:
    """All calls in order; the arguments and outputs of modules and methods, by path."""

    calls: list[Call] = field(default_factory=list)
    memories: list[Tensor] = field(default_factory=list)
    around: dict[str, list[tuple[tuple[Any, ...], Any]]] = field(default_factory=dict)

    def of(self, path: str) -> list[tuple[tuple[Any, ...], Any]]:
        return self.around.get(path, [])


@torch.inference_mode()
def intercept(model: nn.Module, forward: Callable[[], Any], path: str) -> Intercepted:
    """Runs `forward` once and intercepts the attention at `path`."""
    modules = dict(model.named_modules())
    attention = modules.get(path)
    if not isinstance(attention, Attention):
        known = [name for name, module in modules.items() if isinstance(module, Attention)]
        raise UserError(f"no attention '{path}' in this model; it has {', '.join(known) or 'none'}")
    intercepted = Intercepted()
    home, _, name = path.rpartition(".")
    above = home.rpartition(".")[0]
    beside = [home, above, f"{home}.around_{name}", f"{home}.readout"]
    beside += [place for place, module in modules.items() if isinstance(module, TokenEmbedding)]
    with ExitStack() as stack:
        stack.enter_context(plain_linears(model))
        stack.enter_context(_intercepting(attention, intercepted))
        if isinstance(decoder := modules.get(home), AttentionalDecoder):
            stack.enter_context(
                _replaced(decoder, "advance", _recording(decoder.advance, intercepted, f"{home}.advance"))
            )
        for place in {place for place in beside if place in modules and modules[place] is not model}:
            stack.enter_context(_hooked(modules[place], intercepted, place))
        forward()
    if not intercepted.calls:
        raise UserError(f"{path}: was not used in this forward pass, so there is nothing to show")
    return intercepted


def plain(values: Tensor) -> Tensor:
    return values.detach().float().cpu()


def visible(mask: Tensor | None, causal: bool, queries: int, keys: int) -> Tensor:
    """Where each query of the first example may attend; `mask` is boolean or an additive bias (0 or -inf)."""
    seen = torch.ones(queries, keys, dtype=torch.bool)
    if mask is not None:
        allowed = as_boolean(mask).cpu()
        while allowed.ndim > 2:
            allowed = allowed[0]
        seen &= allowed.expand(queries, keys)
    return seen.tril() if causal else seen


def relative(mask: Tensor | None) -> Tensor | None:
    """What relative positions add to the scores of the first example, with -inf where masked; only such a mask has
    heads."""
    return plain(mask)[0] if mask is not None and mask.ndim == 4 else None


@contextmanager
def _intercepting(attention: Attention, intercepted: Intercepted) -> Iterator[None]:
    """Replaces the attention's methods by ones that record their arguments."""

    def project_memory(memory: Tensor) -> Any:
        intercepted.memories.append(plain(memory)[0])
        return old_project_memory(memory)

    def attend(query: Tensor, projected: Any, mask: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
        output = old_attend(query, projected, mask, positions)
        count, memory = query.shape[1], intercepted.memories[-1]
        at = torch.arange(count) if positions is None else positions.cpu()[:count]
        seen = visible(mask, False, count, len(memory))
        intercepted.calls.append(Call(plain(query)[0], memory, seen, relative(mask), at, plain(output)[0]))
        return output

    def self_attend(
        x: Tensor, mask: Tensor | None = None, causal: bool = False, rotation: Rotation | None = None
    ) -> Tensor:
        before = len(intercepted.calls)
        output = old_self_attend(x, mask, causal, **rotated(rotation))
        del intercepted.calls[before:]  # those of `attend`, where self-attention calls it
        count, own = x.shape[1], plain(x)[0]
        seen = visible(mask, causal, count, count)
        turned = None if rotation is None else (plain(rotation[0]), plain(rotation[1]))
        intercepted.calls.append(Call(own, own, seen, relative(mask), torch.arange(count), plain(output)[0], turned))
        return output

    old_project_memory, old_attend = attention.project_memory, attention.attend
    old_self_attend = attention.self_attend
    with ExitStack() as stack:
        stack.enter_context(_replaced(attention, "project_memory", project_memory))
        stack.enter_context(_replaced(attention, "attend", attend))
        stack.enter_context(_replaced(attention, "self_attend", self_attend))
        yield


def _recording(method: Callable[..., Any], intercepted: Intercepted, name: str) -> Callable[..., Any]:
    def recording(*given: Any) -> Any:
        output = method(*given)
        intercepted.around.setdefault(name, []).append((given, output))
        return output

    return recording


@contextmanager
def _hooked(module: nn.Module, intercepted: Intercepted, name: str) -> Iterator[None]:
    def note(_: nn.Module, given: tuple[Any, ...], output: Any) -> None:
        intercepted.around.setdefault(name, []).append((given, output))

    hook = module.register_forward_hook(note)
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def _replaced(module: nn.Module, name: str, other: Callable[..., Any]) -> Iterator[None]:
    """Replaces a method of one module for the duration of the block."""
    setattr(module, name, other)
    try:
        yield
    finally:
        delattr(module, name)


@contextmanager
def plain_linears(model: nn.Module) -> Iterator[None]:
    """Replaces linear layers packed for speed (float32 or int8) by ordinary ones with the original weights."""
    fast = [
        (module, name, child)
        for module in model.modules()
        for name, child in module.named_children()
        if isinstance(child, FastLinear)
    ]
    try:
        for module, name, child in fast:
            setattr(module, name, as_linear(child))
        yield
    finally:
        for module, name, child in fast:
            setattr(module, name, child)


def as_linear(linear: nn.Module) -> Linear:
    """An ordinary linear layer with the weights of a packed one."""
    weight, bias = weight_of(linear), bias_of(linear)
    made = Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    made.weight = nn.Parameter(weight, requires_grad=False)
    if bias is not None:
        made.bias = nn.Parameter(bias, requires_grad=False)
    return made


def weight_of(linear: Any) -> Tensor:
    return linear._weight if isinstance(linear, FastLinear) else linear.weight


def bias_of(linear: Any) -> Tensor | None:
    return linear._bias if isinstance(linear, FastLinear) else linear.bias
