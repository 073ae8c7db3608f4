"""What went into one attention of a model, and what came out of it and of the parts around it, while the model ran.

It runs by itself, in float32 and unwatched: by the same fused kernels as always.
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
from regard.layers.attention._base import Attention
from regard.layers.embedding import TokenEmbedding
from regard.layers.fast_linear import FastLinear
from regard.layers.linear import Linear


@dataclass
class Call:
    """One time that an attention looked, of the first example of its batch."""

    query: Tensor
    """(T, D)"""
    memory: Tensor
    """(S, M)"""
    visible: Tensor
    """(T, S), True where one may look."""
    places: Tensor
    """(T,) the queries' positions, as an attention that cares is told them."""
    output: Tensor
    """(T, C)"""


@dataclass
class Heard:
    """All calls in their order; of modules and methods by their path, what went in (arguments) and what came out."""

    calls: list[Call] = field(default_factory=list)
    memories: list[Tensor] = field(default_factory=list)
    around: dict[str, list[tuple[tuple[Any, ...], Any]]] = field(default_factory=dict)

    def of(self, path: str) -> list[tuple[tuple[Any, ...], Any]]:
        return self.around.get(path, [])


@torch.inference_mode()
def overhear(model: nn.Module, forward: Callable[[], Any], path: str) -> Heard:
    """Runs `forward` once, and listens to the attention at `path`."""
    modules = dict(model.named_modules())
    attention = modules.get(path)
    if not isinstance(attention, Attention):
        known = [name for name, module in modules.items() if isinstance(module, Attention)]
        raise UserError(f"no attention '{path}' in this model; it has {', '.join(known) or 'none'}")
    heard = Heard()
    home, _, name = path.rpartition(".")
    above = home.rpartition(".")[0]
    beside = [home, above, f"{home}.around_{name}", f"{home}.readout"]
    beside += [place for place, module in modules.items() if isinstance(module, TokenEmbedding)]
    with ExitStack() as stack:
        stack.enter_context(_plain_linears(model))
        stack.enter_context(_listening(attention, heard))
        if isinstance(decoder := modules.get(home), AttentionalDecoder):
            stack.enter_context(_replaced(decoder, "advance", _noted(decoder.advance, heard, f"{home}.advance")))
        for place in {place for place in beside if place in modules and modules[place] is not model}:
            stack.enter_context(_hooked(modules[place], heard, place))
        forward()
    if not heard.calls:
        raise UserError(f"{path}: looked at nothing in this pass, so there are no numbers to follow")
    return heard


def plain(values: Tensor) -> Tensor:
    return values.detach().float().cpu()


def visible(mask: Tensor | None, causal: bool, queries: int, keys: int) -> Tensor:
    """Of the first example, where each query may look: masks say it as yes and no, or as 0 and -inf."""
    seen = torch.ones(queries, keys, dtype=torch.bool)
    if mask is not None:
        allowed = (mask if mask.dtype == torch.bool else mask == 0).cpu()
        seen &= (allowed if allowed.ndim < 3 else allowed[0]).expand(queries, keys)
    return seen.tril() if causal else seen


@contextmanager
def _listening(attention: Attention, heard: Heard) -> Iterator[None]:
    """The attention's own methods, which tell what they were given."""

    def project_memory(memory: Tensor) -> Any:
        heard.memories.append(plain(memory)[0])
        return old_project_memory(memory)

    def attend(query: Tensor, projected: Any, mask: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
        output = old_attend(query, projected, mask, positions)
        count, memory = query.shape[1], heard.memories[-1]
        at = torch.arange(count) if positions is None else positions.cpu()[:count]
        seen = visible(mask, False, count, len(memory))
        heard.calls.append(Call(plain(query)[0], memory, seen, at, plain(output)[0]))
        return output

    def self_attend(x: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        before = len(heard.calls)
        output = old_self_attend(x, mask, causal)
        del heard.calls[before:]  # of `attend`, where self-attention is made of it
        count, own = x.shape[1], plain(x)[0]
        seen = visible(mask, causal, count, count)
        heard.calls.append(Call(own, own, seen, torch.arange(count), plain(output)[0]))
        return output

    old_project_memory, old_attend = attention.project_memory, attention.attend
    old_self_attend = attention.self_attend
    with ExitStack() as stack:
        stack.enter_context(_replaced(attention, "project_memory", project_memory))
        stack.enter_context(_replaced(attention, "attend", attend))
        stack.enter_context(_replaced(attention, "self_attend", self_attend))
        yield


def _noted(method: Callable[..., Any], heard: Heard, name: str) -> Callable[..., Any]:
    def noting(*given: Any) -> Any:
        output = method(*given)
        heard.around.setdefault(name, []).append((given, output))
        return output

    return noting


@contextmanager
def _hooked(module: nn.Module, heard: Heard, name: str) -> Iterator[None]:
    def note(_: nn.Module, given: tuple[Any, ...], output: Any) -> None:
        heard.around.setdefault(name, []).append((given, output))

    hook = module.register_forward_hook(note)
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def _replaced(module: nn.Module, name: str, other: Callable[..., Any]) -> Iterator[None]:
    """A method of one module, for a while: it is put before that of its class and taken away again."""
    setattr(module, name, other)
    try:
        yield
    finally:
        delattr(module, name)


@contextmanager
def _plain_linears(model: nn.Module) -> Iterator[None]:
    """Linears that were laid out for speed, in float32 or int8, are for a while what they were made of."""
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
    """A linear layer with the weights of another, whatever that was made for."""
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
