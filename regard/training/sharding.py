"""A model of which every rank keeps only a share: weights, gradients and optimizer (FSDP2), and its checkpoints.

Which modules are gathered one by one is found out, not declared: those inside a ModuleList whose weights are used only
while they are being called. A module that others reach into (a decoder's layer, whose keys of the memory are computed
before its turn) stays with the rest, which is gathered for the whole pass.
Checkpoints are torch.distributed.checkpoint's, in safetensors: torch's usual writer would leave a pickle.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from regard.errors import UserError
from regard.safetensors_header import read_header
from regard.types import Batch, LossSum

SHARD = "shard-"
"""How the names of the files begin that hold a rank's share."""


class Sharded(nn.Module):
    """A model, now in shares, that still has a loss. All ranks must ask for it equally often."""

    def __init__(self, model: nn.Module, example: Batch, device: torch.device, ranks: int) -> None:
        """`example`: any batch, the same on all ranks, to see how the model uses its weights."""
        super().__init__()
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        _storage()  # before hours are spent on what could not be saved
        self.model = model
        mesh = init_device_mesh(device.type, (ranks,))
        modules = dict(model.named_modules())
        for name in separable(model, example):
            fully_shard(modules[name], mesh=mesh)
        fully_shard(self, mesh=mesh)
        # Changing such an output in place would lose gradients: that shares learn what a whole model does is tested.
        warnings.filterwarnings("ignore", message=r"FSDP2-wrapped module .* returned a view tensor")

    def loss(self, batch: Batch) -> LossSum:
        return LossSum(*self(batch))

    def forward(self, batch: Batch) -> tuple[Tensor, int]:
        """A call, which is when shares are gathered, and plain tensors, by whose gradients they are gathered again."""
        loss: LossSum = self.model.loss(batch)  # type: ignore[operator]
        return loss.total, loss.units


def separable(model: nn.Module, example: Batch) -> list[str]:
    """The largest modules inside ModuleLists whose weights nobody uses but they themselves, while they are called.

    Single layers and mere norms are not worth a gathering of their own.
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
    """Sees every function that is given a parameter, and which modules were being called at that moment."""

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


# ------------------------------------------------------------------------------------------------- shares and wholes


def local(tensor: Tensor) -> Tensor:
    """This rank's share of a tensor; a plain tensor is its own."""
    to_local = getattr(tensor, "to_local", None)  # a plain training never imports what shares are made of
    return to_local() if to_local else tensor


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor, from all ranks, who must all ask for it."""
    full_tensor = getattr(tensor, "full_tensor", None)
    return full_tensor() if full_tensor else tensor


def put(target: Tensor, values: Tensor) -> None:
    """Copies a whole tensor, or of it this rank's share, into place."""
    if hasattr(target, "to_local"):
        from torch.distributed.tensor import DTensor, distribute_tensor

        assert isinstance(target, DTensor)
        values = values.to(target.to_local().device)
        values = distribute_tensor(values, target.device_mesh, target.placements, src_data_rank=None)
    target.copy_(values)


# -------------------------------------------------------------------------------------------------------- checkpoints


def write_shares(tensors: Mapping[str, Tensor], folder: Path) -> None:
    """Every rank writes its shares into a new folder, and rank 0 besides what all have alike. All must call it."""
    from torch.distributed.checkpoint import CheckpointException, save

    _, writer = _storage()
    try:
        save(dict(tensors), storage_writer=writer(str(folder), save_distributed=True))
    except CheckpointException as error:
        why = next(iter(error.failures.values()))[0]
        raise UserError(f"cannot write {folder.parent}: {why}; make room or choose another folder") from None


def read_shares(tensors: Mapping[str, Tensor], folder: Path, alone: bool) -> set[str]:
    """Fills tensors, whole or shared by all ranks, from what any number of ranks wrote. Returns which it found.

    `alone`: each rank reads for itself.
    """
    from torch.distributed.checkpoint import CheckpointException, load

    reader, _ = _storage()
    for file in sorted(folder.glob("*.safetensors")):
        read_header(file)
    try:
        names = reader(str(folder)).read_metadata().state_dict_metadata.keys() & tensors.keys()
        with warnings.catch_warnings(action="ignore"):  # that there is one process only, which it was told
            if found := {name: tensors[name] for name in sorted(names)}:
                load(found, storage_reader=reader(str(folder)), no_dist=alone)
    except (CheckpointException, ValueError, KeyError) as error:
        why = str(error)[:200]
        raise UserError(f"{folder}: does not fit this model ({why}); resume with the recipe of the run") from None
    return set(names)


def share_files(folder: Path) -> Iterator[Path]:
    return iter(sorted(folder.glob(f"{SHARD}*.safetensors")))


def _storage() -> tuple[Any, Any]:
    try:
        from torch.distributed.checkpoint import HuggingFaceStorageReader, HuggingFaceStorageWriter
    except ImportError:
        raise UserError("training.shard: needs PyTorch 2.8 or newer, which can save shares in safetensors") from None
    return HuggingFaceStorageReader, HuggingFaceStorageWriter
