"""What a checkpoint holds and how training resumes from it.

Killed at any moment and resumed, a run continues as if nothing had happened, on the CPU to the last bit. So everything
that the next step depends on is in `TrainingState` or a tensor in optimizer.safetensors.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from regard.errors import UserError
from regard.storage import Folder
from regard.training.checkpoints import Checkpoints
from regard.training.placement import MOMENTS, OPTIMIZER, Placement
from regard.training.ranks import Ranks
from regard.training.state import STATE, TrainingState
from regard.training.step import Step
from regard.types import BatchStream
from regard.weights import save_tensors


class Saver:
    """Saves and restores model, optimizer, averages, random states, data cursor and `TrainingState`."""

    def __init__(
        self,
        checkpoints: Checkpoints,
        model_files: Callable[[dict[str, Tensor]], dict[str, bytes]],
        placement: Placement,
        step: Step,
        state: TrainingState,
        stream: BatchStream,
        ranks: Ranks,
    ) -> None:
        self.checkpoints, self.model_files = checkpoints, model_files
        self.placement, self.step, self.state, self.stream = placement, step, state, stream
        self.ranks, self.device = ranks, placement.device
        self.saved = -1
        """The step of the last checkpoint; -1 if there is none that an uninterrupted run would have."""
        self.random: dict[str, Tensor] | None = None
        """Random states of the checkpoint that was restored."""

    def save(self, best: bool = False, interrupted: bool = False) -> None:
        """Writes a checkpoint. All ranks must call it."""
        self.step.flush()
        if self.stream.cursor_is_own:
            self.state.cursor = self.ranks.merged(self.state.cursor)
        averages, trained = self.step.average.weights, self.placement.trained
        tensors: dict[str, Tensor] = {}
        if averages:  # the folder's weights are then the averages, which are what one wants to use
            tensors |= {f"trained.{name}": parameter for name, parameter in trained.items()}
        for name, parameter in trained.items():
            moments = self.step.optimizer.state.get(parameter, {})
            tensors |= {f"{moment}.{name}": tensor for moment, tensor in moments.items()}
        weights = self.placement.gather(averages)
        staged = self.checkpoints.folder / f".step-{self.state.step:08d}.shares.tmp"
        tensors = self.placement.stage(tensors, staged)

        def write() -> None:
            random = {f"random.{name}": state for name, state in random_states(self.device).items()}
            files: dict[str, bytes | Callable[[Path], None]] = {
                **self.model_files(weights),
                OPTIMIZER: save_tensors(random | tensors),
                STATE: self.state.to_json(),
                **self.placement.staged_files(staged),
            }
            self.checkpoints.save(self.state.step, files, best, interrupted)

        self.ranks.first(write)
        self.saved = self.state.step

    def restore(self, folder: Folder) -> None:
        """Continues from a checkpoint."""
        self.state.restore(folder)
        self.placement.load(folder.weights())
        tensors = self.placement.read_optimizer(folder)
        trained = self.placement.trained
        for name, average in self.step.average.weights.items():
            if f"trained.{name}" not in tensors:
                raise UserError(f"{folder.path}: was trained with training.ema = 0; resuming cannot turn it on")
            average.copy_(trained[name].detach())
            trained[name].data.copy_(tensors[f"trained.{name}"])
        for name, parameter in trained.items():
            moments = {moment: tensors.get(f"{moment}.{name}") for moment in MOMENTS}
            present = {moment: tensor.to(self.device) for moment, tensor in moments.items() if tensor is not None}
            if present:
                self.step.optimizer.state[parameter] = present
        self.random = {key.removeprefix("random."): t for key, t in tensors.items() if key.startswith("random.")}
        self.stream.seek(self.state.cursor)

    def restore_random(self) -> None:
        """Sets the random states of the restored checkpoint, or those of a new run's seed."""
        if self.random is None:
            torch.manual_seed(self.state.seed)
        else:
            set_random_states(self.random, self.device)


def random_states(device: torch.device) -> dict[str, Tensor]:
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def set_random_states(states: dict[str, Tensor], device: torch.device) -> None:
    """A run that moves to another kind of device keeps the states that apply there."""
    torch.set_rng_state(states["cpu"])
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"], device)
