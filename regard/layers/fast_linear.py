"""Fast linear layers for CPU inference, where products of a few rows with large weights are most of the work.

Weights are packed once into the layout of the kernels. With int8 a quarter of the memory is read and four times as many
products are done per instruction. A model with such layers cannot be trained or saved.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import UserError
from regard.layers.attention.multi_head import MultiHead
from regard.layers.feed_forward import FeedForward
from regard.layers.ssru import SSRU

PRECISIONS = ("auto", "float32", "bfloat16", "int8")
FEW, SMALL = 3, 1 << 17
"""Below this number of rows and of weights the unpacked weights are faster. Large ones come from memory, and are read
twice as fast when they are packed."""


@runtime_checkable
class HasProjection(Protocol):
    """A decoder, whose output weight may be that of its embedding."""

    projection: nn.Module | None
    output_bias: Tensor | None

    def output_weight(self) -> Tensor: ...


class FastLinear(nn.Module, ABC):
    """x W^T + b for fixed W and b."""

    def __init__(self, weight: Float[Tensor, "P D"], bias: Float[Tensor, "P"] | None):
        super().__init__()
        self._weight, self._bias = weight.detach(), None if bias is None else bias.detach()
        self._parts: dict[tuple[int, int], FastLinear] = {}

    def forward(self, x: Float[Tensor, "*N D"]) -> Float[Tensor, "*N P"]:
        if x.requires_grad:  # the kernels have no gradient: use the original weights
            return F.linear(x, self._weight, self._bias)
        return self.fast(x)

    @abstractmethod
    def fast(self, x: Float[Tensor, "*N D"]) -> Float[Tensor, "*N P"]: ...

    def part(self, x: Float[Tensor, "*N D"], start: int, stop: int) -> Float[Tensor, "*N Q"]:
        """Some rows of W only; packed on first use."""
        if (start, stop) not in self._parts:
            bias = None if self._bias is None else self._bias[start:stop]
            self._parts[start, stop] = type(self)(self._weight[start:stop], bias)
        return self._parts[start, stop](x)


class PackedLinear(FastLinear):
    """Packed weights in float32."""

    def __init__(self, weight: Float[Tensor, "P D"], bias: Float[Tensor, "P"] | None):
        super().__init__(weight, bias)
        self._packed: Tensor | None = None

    def fast(self, x: Float[Tensor, "*N D"]) -> Float[Tensor, "*N P"]:
        if x.numel() < FEW * x.shape[-1] and self._weight.numel() < SMALL:
            return F.linear(x, self._weight, self._bias)
        if self._packed is None:
            self._packed = torch.ops.mkldnn._reorder_linear_weight(self._weight.contiguous(), 64)
        return torch.ops.mkldnn._linear_pointwise(x, self._packed, self._bias, "none", [], "")


class Int8Linear(FastLinear):
    """W and x quantised to int8, with one scale for each row of W and of x.

    Each row of x has its own scale, so that no sentence affects another in its batch.
    """

    def __init__(self, weight: Float[Tensor, "P D"], bias: Float[Tensor, "P"] | None):
        super().__init__(weight, bias)
        self._packed: torch.ScriptObject | None = None

    def fast(self, x: Float[Tensor, "*N D"]) -> Float[Tensor, "*N P"]:
        if self._packed is None:
            self._packed = _packed_int8(self._weight)
        # The kernel has one scale for all of x, so each row is scaled to -1..1 before and back after.
        largest = x.abs().amax(-1, keepdim=True).clamp_min_(1e-30)
        y = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(x / largest, 1 / 127, 128, self._packed)
        y.mul_(largest)
        return y if self._bias is None else y.add_(self._bias)


def _packed_int8(weight: Tensor) -> torch.ScriptObject:
    scale = weight.abs().amax(1).clamp_min(1e-30) / 127
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch deprecates these types; see `int8_is_fast`
        rounded = torch.quantize_per_channel(weight, scale.double(), torch.zeros_like(scale).long(), 0, torch.qint8)
    return torch.ops.quantized.linear_prepack(rounded, None)


def int8_is_fast() -> bool:
    """Whether this CPU multiplies int8 without overflow (VNNI) and this PyTorch has the kernel."""
    names = ("_is_vnni_supported", "_is_avx512_vnni_supported")  # the second in newer versions
    vnni = any(getattr(torch.cpu, name, lambda: False)() for name in names)
    engines = torch.backends.quantized.supported_engines
    kernel = getattr(torch.ops.quantized, "linear_with_input_q_dq_qweight_dq_output_fp32", None)
    return vnni and "fbgemm" in engines and kernel is not None


def packing_is_possible() -> bool:
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def ready_for_use(model: nn.Module, precision: str, device: torch.device) -> nn.Module:
    """The model with fast Transformer layers and output projection for this device. `auto` is int8 on a CPU with fast
    int8, bfloat16 on a GPU that supports it, else float32."""
    if precision not in PRECISIONS:
        raise UserError(f"precision '{precision}' is not known; use {', '.join(PRECISIONS)}")
    on_cpu = device.type == "cpu"
    if precision == "int8" and not (on_cpu and int8_is_fast()):
        raise UserError("precision int8 needs a CPU with AVX-512 VNNI; use --precision float32")
    if precision == "bfloat16" and on_cpu:
        raise UserError("precision bfloat16 is for GPUs; on a CPU use int8 or float32")
    if precision == "auto":
        half = device.type == "cuda" and torch.cuda.is_bf16_supported()
        precision = "int8" if on_cpu and int8_is_fast() else "bfloat16" if half else "float32"
    if precision == "bfloat16":
        return model.to(torch.bfloat16)
    if on_cpu and (precision == "int8" or packing_is_possible()):
        replace_linears(model, Int8Linear if precision == "int8" else PackedLinear)
    return model


def replace_linears(model: nn.Module, kind: type[FastLinear]) -> None:
    if kind is Int8Linear:
        torch.backends.quantized.engine = "fbgemm"
    modules: list[Any] = list(model.modules())
    for module in modules:
        if isinstance(module, (MultiHead, FeedForward, SSRU)):
            module.inward = kind(module.inward.weight, module.inward.bias)  # type: ignore[assignment, arg-type]
        if isinstance(module, (MultiHead, FeedForward)):
            module.outward = kind(module.outward.weight, module.outward.bias)  # type: ignore[assignment, arg-type]
            if isinstance(module, FeedForward) and module.gate is not None:
                module.gate = kind(module.gate.weight, module.gate.bias)  # type: ignore[assignment, arg-type]
        elif isinstance(module, HasProjection):
            module.projection = kind(module.output_weight(), module.output_bias)
