"""Checkpoints of sharded training: torch.distributed.checkpoint, in safetensors, since its usual writer makes a pickle.

Any number of ranks, or one process, reads what any number of ranks wrote.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.errors import UserError
from regard.safetensors_header import read_header
from regard.training.placement import MOMENTS, OPTIMIZER

if TYPE_CHECKING:
    from regard.storage import Folder


def read_optimizer_shards(folder: Folder, like: Mapping[str, Tensor], alone: bool) -> dict[str, Tensor]:
    """Optimizer and random states of a checkpoint, one file or shards. `like` has a tensor, whole or a shard, for each
    trained parameter; `alone`: each rank reads for itself."""
    wanted: dict[str, Tensor] = {}
    for name, parameter in like.items():
        wanted |= {f"{moment}.{name}": torch.empty_like(parameter) for moment in ("trained", *MOMENTS[1:])}
        wanted[f"step.{name}"] = torch.zeros(())
    found = read_shards(wanted, folder.path, alone)
    random = {name: tensor for name, tensor in folder.tensors(OPTIMIZER).items() if name.startswith("random.")}
    return random | {name: wanted[name] for name in found}


def write_shards(tensors: Mapping[str, Tensor], folder: Path) -> None:
    """Every rank writes its shards into a new folder, and rank 0 also what is not sharded. All must call it."""
    from torch.distributed.checkpoint import CheckpointException, save

    _, writer = _storage()
    try:
        save(dict(tensors), storage_writer=writer(str(folder), save_distributed=True))
    except CheckpointException as error:
        why = next(iter(error.failures.values()))[0]
        raise UserError(f"cannot write {folder.parent}: {why}; make room or choose another folder") from None


def read_shards(tensors: Mapping[str, Tensor], folder: Path, alone: bool) -> set[str]:
    """Fills whole or sharded tensors from a checkpoint; returns the names it found. `alone`: each rank for itself."""
    from torch.distributed.checkpoint import CheckpointException, load

    reader, _ = _storage()
    for file in sorted(folder.glob("*.safetensors")):
        read_header(file)
    try:
        names = reader(str(folder)).read_metadata().state_dict_metadata.keys() & tensors.keys()
        with warnings.catch_warnings(action="ignore"):  # that there is only one process
            if found := {name: tensors[name] for name in sorted(names)}:
                load(found, storage_reader=reader(str(folder)), no_dist=alone)
    except (CheckpointException, ValueError, KeyError) as error:
        why = str(error)[:200]
        raise UserError(f"{folder}: does not fit this model ({why}); resume with the recipe of the run") from None
    return set(names)


def require_support() -> None:
    """Refuses a PyTorch that cannot save shards in safetensors."""
    _storage()


def _storage() -> tuple[Any, Any]:
    try:
        from torch.distributed.checkpoint import HuggingFaceStorageReader, HuggingFaceStorageWriter
    except ImportError:
        raise UserError("training.shard: needs PyTorch 2.8 or newer, which can save shares in safetensors") from None
    return HuggingFaceStorageReader, HuggingFaceStorageWriter
