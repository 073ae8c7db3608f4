"""What a trainer reports: log entries, validations, notes. progress.py shows and stores them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from regard.types import Validation


@dataclass
class Log:
    """The numbers of the steps since the last log entry."""

    step: int
    epoch: int
    loss: float
    """Mean per unit over all units since the last entry."""
    learning_rate: float
    norm: float
    """Of the last step's gradient, before clipping."""
    units: int
    """Since the start of the run."""
    units_per_second: float
    layers: dict[str, float] = field(default_factory=dict)
    """Gradient norm of each layer: the root of the sum of their squares is `norm`."""


@runtime_checkable
class Listener(Protocol):
    """Receives what a trainer reports."""

    def start(self, step: int, steps: int) -> None: ...

    def advance(self, step: int) -> None: ...

    def log(self, log: Log) -> None: ...

    def validated(self, step: int, validation: Validation) -> None: ...

    def note(self, text: str) -> None:
        """Something a person should know: a skipped batch, a broken checkpoint, the reason of a stop."""
        ...

    def close(self) -> None: ...


class Quiet:
    """A listener that ignores everything."""

    def start(self, step: int, steps: int) -> None: ...

    def advance(self, step: int) -> None: ...

    def log(self, log: Log) -> None: ...

    def validated(self, step: int, validation: Validation) -> None: ...

    def note(self, text: str) -> None: ...

    def close(self) -> None: ...
