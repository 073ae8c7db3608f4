"""Where the weights of a trained model live: the interface, and a whole model on one device.

sharded.py has the other kind, whose weights are spread over the ranks.
"""

from __future__ import annotations

import contextlib
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from regard.errors import UserError

if TYPE_CHECKING:
    from regard.storage import Folder

OPTIMIZER = "optimizer.safetensors"
"""The file of a checkpoint that holds optimizer and random states."""
SHARD = "shard-"
"""Prefix of the files of a checkpoint that hold a rank's shard of the optimizer state."""
MOMENTS = ("step", "exp_avg", "exp_avg_sq")
"""AdamW's state of a parameter."""


class Placement(ABC):
    """A model and its weights."""

    device: torch.device
    model: nn.Module
    """The whole model, for validation and for the result. With shards, only rank 0's is usable."""
    whole: dict[str, Tensor]
    """Weights of the whole model; with shards, empty on all ranks but 0."""
    own: dict[str, Tensor]
    """Weights that this rank trains: the same tensors, or shards."""

    @functools.cached_property
    def trained(self) -> dict[str, nn.Parameter]:
        return {n: p for n, p in self.own.items() if isinstance(p, nn.Parameter) and p.requires_grad}

    @functools.cached_property
    def buffers(self) -> list[Tensor]:
        """Those a skipped step must leave as they were, such as running means."""
        return [t for t in self.own.values() if not isinstance(t, nn.Parameter) and t.is_floating_point()]

    @abstractmethod
    def train(self) -> None:
        """Puts the trained module into training mode."""

    @abstractmethod
    def local(self, tensor: Tensor) -> Tensor:
        """This rank's part of a weight, gradient or average."""

    @abstractmethod
    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Copies weights of a whole model into those that this rank trains."""

    @abstractmethod
    def gather(self, averages: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The weights of the whole model on the CPU, averages in place of what was averaged. All ranks must call it;
        those other than 0 get nothing."""

    @abstractmethod
    def averaged(self, averages: Mapping[str, Tensor]) -> contextlib.AbstractContextManager[None]:
        """Inside, rank 0's whole model has the current weights, averages in place. All ranks must enter it."""

    @abstractmethod
    def evaluating(self) -> contextlib.AbstractContextManager[nn.Module]:
        """The whole model, on its device and in evaluation mode. Rank 0 only."""

    @abstractmethod
    def stage(self, tensors: dict[str, Tensor], folder: Path) -> dict[str, Tensor]:
        """Writes this rank's shards of the optimizer state into `folder`; returns what rank 0 has to write itself."""

    @abstractmethod
    def staged_files(self, folder: Path) -> dict[str, Callable[[Path], Any]]:
        """The files that all ranks staged: name, and what moves one to a path."""

    @abstractmethod
    def read_optimizer(self, folder: Folder) -> dict[str, Tensor]:
        """Optimizer and random states of a checkpoint, which any number of ranks may have written."""


class WholeModel(Placement):
    """A whole model on one device; every rank has its own copy."""

    def __init__(self, model: nn.Module, device: torch.device, is_first: bool = True) -> None:
        self.device, self.model = device, model.to(device)
        self.whole = self.own = named_weights(self.model)
        self._is_first = is_first

    def train(self) -> None:
        self.model.train()

    def local(self, tensor: Tensor) -> Tensor:
        return tensor

    def load(self, weights: Mapping[str, Tensor]) -> None:
        copy_weights(self.own, weights)

    def gather(self, averages: Mapping[str, Tensor]) -> dict[str, Tensor]:
        if not self._is_first:
            return {}
        return {name: tensor.detach().cpu() for name, tensor in {**self.own, **averages}.items()}

    @contextlib.contextmanager
    def averaged(self, averages: Mapping[str, Tensor]) -> Iterator[None]:
        trained = self.trained
        own = {name: trained[name].data for name in averages}
        try:
            for name, average in averages.items():
                trained[name].data = average
            yield
        finally:
            for name, values in own.items():
                trained[name].data = values

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[nn.Module]:
        try:
            yield self.model.eval()
        finally:
            self.model.train()

    def stage(self, tensors: dict[str, Tensor], folder: Path) -> dict[str, Tensor]:
        return tensors

    def staged_files(self, folder: Path) -> dict[str, Callable[[Path], Any]]:
        return {}

    def read_optimizer(self, folder: Folder) -> dict[str, Tensor]:
        if not any(name.startswith(SHARD) for name in folder.names):
            return folder.tensors(OPTIMIZER)
        from regard.training.sharded_checkpoint import read_optimizer_shards

        empty = {name: torch.empty(parameter.shape) for name, parameter in self.trained.items()}
        return read_optimizer_shards(folder, empty, alone=True)


def named_weights(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and persistent buffers by name; tied weights appear once, under their first name."""
    found: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        found.setdefault(id(tensor), (name, tensor))
    return dict(found.values())


def copy_weights(
    into: Mapping[str, Tensor], weights: Mapping[str, Tensor], copy: Callable[[Tensor, Tensor], Any] = Tensor.copy_
) -> None:
    """Copies weights into those of a model, whose names and shapes must be the same."""
    for name in into.keys() ^ weights.keys():
        holder = "the checkpoint" if name in weights else "the model"
        raise UserError(f"only {holder} has '{name}'; resume with the recipe of the run")
    with torch.no_grad():
        for name, tensor in into.items():
            if tensor.shape != weights[name].shape:
                shapes = f"{tuple(tensor.shape)} in the model and {tuple(weights[name].shape)} in the checkpoint"
                raise UserError(f"'{name}' is {shapes}; resume with the recipe of the run")
            copy(tensor, weights[name])
