"""Gradients of one process that trains alone."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.training.gradient_norms import gradient_norms
from regard.training.placement import WholeModel
from regard.training.strategy import Note, Part, StepSums, Strategy
from regard.types import Batch, LossSum


class OneRank(Strategy):
    """What strategies of a single process have in common: there is nobody to agree with."""

    signal_echo = 0.0
    placement: WholeModel

    def parts(self, batches: list[Batch]) -> list[Part]:
        return [Part(batch) for batch in batches]

    def end(self) -> bool:
        return False

    def gradients(self, sums: StepSums | None = None) -> list[Tensor]:
        return [p.grad for p in self.placement.trained.values() if p.grad is not None]

    def norms(self) -> Tensor | None:
        return gradient_norms(self.placement.trained.values())

    def combine(self, loss: Tensor, norm: Tensor, units: int, fits: bool, stop: bool, seconds: float) -> Tensor:
        return torch.stack([loss, norm.to(loss)])

    def read(self, numbers: Tensor, units: int) -> StepSums:
        loss, norm = numbers.tolist()
        return StepSums(loss, norm, units)

    def should_stop(self, requested: bool) -> bool:
        return requested

    def time_spent(self, here: float, agreed: float) -> float:
        return here


class SingleProcess(OneRank):
    """Plain forward and backward passes."""

    def __init__(self, model: nn.Module, device: torch.device, precision: torch.dtype | None) -> None:
        self.placement = WholeModel(model, device)
        self.device, self.precision = device, precision
        self.reads_late = device.type == "cuda"

    def with_cuda_graphs(self, note: Note) -> Strategy:
        if self.device.type != "cuda":
            return self
        from regard.training.cuda_graph import GraphReplay

        return GraphReplay(self.placement, self.precision, note)

    def begin(self, parts: list[Part]) -> None:
        self.release()

    def backward(self, part: Part, last: bool) -> LossSum:
        with torch.autocast(self.device.type, self.precision, enabled=self.precision is not None):
            loss: LossSum = self.placement.model.loss(part.batch)  # type: ignore[operator]
        loss.total.backward()
        return loss

    def release(self) -> None:
        for parameter in self.placement.trained.values():
            parameter.grad = None

    def out_of_memory(self, rows: int, where: str) -> bool:
        return False
