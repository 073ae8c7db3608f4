"""Sharded training (FSDP2): every rank keeps a shard of weights, gradients and optimizer state.

Which modules are gathered one by one is detected, not declared: those inside a ModuleList whose weights are used only
while they are being called. A module that others reach into (a decoder layer, whose keys of the encoder output are
computed before its turn) stays with the rest, which is gathered for the whole pass.
"""

from __future__ import annotations

import contextlib
import copy
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from regard.errors import UserError
from regard.training.gradient_norms import gradient_norms
from regard.training.placement import SHARD, Placement, copy_weights, named_weights
from regard.training.rank_sums import SeveralRanks
from regard.training.ranks import Ranks
from regard.training.sharded_checkpoint import read_optimizer_shards, require_support, write_shards
from regard.training.strategy import Part, StepSums
from regard.types import Batch, BatchStream, LossSum

if TYPE_CHECKING:
    from regard.storage import Folder


class Sharded(SeveralRanks):
    """Every rank computes some of a step's batches. All must run equally many passes, since each gathers weights."""

    placement: ShardedModel

    def __init__(
        self,
        model: nn.Module,
        ranks: Ranks,
        device: torch.device,
        precision: torch.dtype | None,
        accumulate: int,
        stream: BatchStream,
    ) -> None:
        super().__init__(ranks, device, accumulate)
        self.precision = precision
        self.placement = ShardedModel(model, ranks, device, example_batch(stream))

    def parts(self, batches: list[Batch]) -> list[Part]:
        parts = self.numbered(batches)
        if len(parts) < -(-self.accumulate // self.ranks.size):
            row = batches[-1]
            while len(row) > 1:
                row = row.split()[0]
            parts.append(Part(row, counts=False))
        return parts

    def begin(self, parts: list[Part]) -> None:
        self.release()

    def backward(self, part: Part, last: bool) -> LossSum:
        with torch.autocast(self.device.type, self.precision, enabled=self.precision is not None):
            loss = self.placement.module.loss(part.batch)
        # FSDP averages gradients over the ranks; the factor makes the average a sum
        (loss.total * (self.ranks.size if part.counts else 0)).backward()
        return loss

    def end(self) -> bool:
        return False

    def release(self) -> None:
        for parameter in self.placement.trained.values():
            parameter.grad = None

    def out_of_memory(self, rows: int, where: str) -> bool:
        """The other ranks are in the middle of a pass that they cannot finish without this one."""
        raise UserError(
            f"{where}: {rows} rows do not fit in memory, and with training.shard no rank can split a batch alone; "
            "start anew with a lower training.batch_tokens"
        )

    def gradients(self, sums: StepSums | None = None) -> list[Tensor]:
        return [self.placement.local(p.grad) for p in self.placement.trained.values() if p.grad is not None]

    def norms(self) -> Tensor | None:
        own = gradient_norms(self.placement.trained.values(), self.placement.local)
        return self.ranks.sum(own.square()).sqrt()

    def combine(self, loss: Tensor, norm: Tensor, units: int, fits: bool, stop: bool, seconds: float) -> Tensor:
        return self.sum_numbers(loss, norm, units, fits, stop, seconds)


class ShardedModel(Placement):
    """A model in shards. Rank 0 also has a whole copy for validation, which is on the CPU in between."""

    def __init__(self, model: nn.Module, ranks: Ranks, device: torch.device, example: Batch) -> None:
        """`example`: any batch, the same on all ranks, to see how the model uses its weights."""
        ranks.broadcast(named_weights(model).values(), device)
        self.model = copy.deepcopy(model) if ranks.is_first else model
        self.module = ShardedModule(model, example, device, ranks.size)
        self.own = named_weights(model)
        self.whole = named_weights(self.model) if ranks.is_first else {}
        self.device, self._is_first = device, ranks.is_first

    def train(self) -> None:
        self.module.train()

    def local(self, tensor: Tensor) -> Tensor:
        return tensor.to_local() if isinstance(tensor, DTensor) else tensor

    def load(self, weights: Mapping[str, Tensor]) -> None:
        copy_weights(self.own, weights, _copy_shard)

    def gather(self, averages: Mapping[str, Tensor]) -> dict[str, Tensor]:
        found = {}
        for name, tensor in {**self.own, **averages}.items():
            full = tensor.detach()
            full = full.full_tensor() if isinstance(full, DTensor) else full
            if self._is_first:
                found[name] = full.cpu()
        return found

    @contextlib.contextmanager
    def averaged(self, averages: Mapping[str, Tensor]) -> Iterator[None]:
        found = self.gather(averages)
        if self._is_first:
            copy_weights(self.whole, found)
        yield

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[nn.Module]:
        try:
            yield self.model.to(self.device).eval()
        finally:
            self.model.train().cpu()

    def stage(self, tensors: dict[str, Tensor], folder: Path) -> dict[str, Tensor]:
        if tensors:
            write_shards(tensors, folder)
        return {}

    def staged_files(self, folder: Path) -> dict[str, Callable[[Path], Any]]:
        return {file.name: partial(os.replace, file) for file in sorted(folder.glob(f"{SHARD}*.safetensors"))}

    def read_optimizer(self, folder: Folder) -> dict[str, Tensor]:
        return read_optimizer_shards(folder, {n: p.detach() for n, p in self.trained.items()}, alone=False)


class ShardedModule(nn.Module):
    """A model whose weights are sharded, with a loss. All ranks must call it equally often."""

    def __init__(self, model: nn.Module, example: Batch, device: torch.device, ranks: int) -> None:
        super().__init__()
        require_support()  # before hours are spent on what could not be saved
        self.model = model
        mesh = init_device_mesh(device.type, (ranks,))
        modules = dict(model.named_modules())
        for name in separable(model, example):
            fully_shard(modules[name], mesh=mesh)
        fully_shard(self, mesh=mesh)
        # Changing such an output in place would lose gradients; tests compare sharded with whole training.
        warnings.filterwarnings("ignore", message=r"FSDP2-wrapped module .* returned a view tensor")

    def loss(self, batch: Batch) -> LossSum:
        return LossSum(*self(batch))

    def forward(self, batch: Batch) -> tuple[Tensor, int]:
        """FSDP gathers weights when a module is called, and again when the gradients of plain outputs arrive."""
        loss: LossSum = self.model.loss(batch)  # type: ignore[operator]
        return loss.total, loss.units


def example_batch(stream: BatchStream) -> Batch:
    """A small batch of a stream, the same on all ranks; the stream's cursor stays where it was."""
    cursor = stream.cursor()
    batches = iter(stream)
    example = next(batch for batch in batches if len(batch))
    batches.close()
    stream.seek(cursor)
    while len(example) > 3:
        example = example.split()[0]
    return example


def separable(model: nn.Module, example: Batch) -> list[str]:
    """The modules to gather one by one: the largest inside ModuleLists whose weights only they use, while called.

    Single layers and norms are too small to be worth a gather of their own.
    """
    probe = copy.deepcopy(model).cpu().train()
    uses = _Uses(probe)
    with torch.random.fork_rng(), torch.no_grad(), uses:
        probe.loss(example.to("cpu"))  # type: ignore[operator]
    found: list[str] = []
    for name, module in probe.named_modules():
        inside = any(name.startswith(f"{outer}.") for outer in found)
        large = len(list(module.modules())) > 1 and any(parameter.dim() > 1 for parameter in module.parameters())
        if not inside and large and _in_list(probe, name) and uses.only_by(module):
            found.append(name)
    return found


def _in_list(model: nn.Module, name: str) -> bool:
    parts = name.split(".")
    return any(isinstance(model.get_submodule(".".join(parts[:end])), nn.ModuleList) for end in range(1, len(parts)))


class _Uses(TorchFunctionMode):
    """Records, for each parameter, the modules that were being called whenever a torch function took it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._parameters = {id(parameter) for parameter in model.parameters()}
        self._callers: dict[int, set[int]] = {}
        self._stack: list[int] = []
        for module in model.modules():
            module.register_forward_pre_hook(lambda module, _: self._stack.append(id(module)))
            module.register_forward_hook(lambda *_: self._left())

    def _left(self) -> None:
        self._stack.pop()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for value in tree_leaves((args, kwargs)):
            if id(value) in self._parameters:
                callers = self._callers.setdefault(id(value), set(self._stack))
                callers.intersection_update(self._stack)
        return func(*args, **(kwargs or {}))

    def only_by(self, module: nn.Module) -> bool:
        used = [self._callers.get(id(parameter)) for parameter in module.parameters()]
        return bool(used) and all(callers is not None and id(module) in callers for callers in used)


def _copy_shard(target: Tensor, values: Tensor) -> None:
    """Copies this rank's shard of a whole tensor into place."""
    if isinstance(target, DTensor):
        values = values.to(target.to_local().device)
        values = distribute_tensor(values, target.device_mesh, target.placements, src_data_rank=None)
    target.copy_(values)
