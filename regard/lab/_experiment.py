"""What an experiment is: a claim of the lectures, numbers that test it, and a rule for the verdict, stated beforehand.

`run` measures and gives plain numbers; table, verdict and figure are pure functions of those numbers, so that a page
can be made again from a file and a test can show which numbers would flip the verdict. Knows nothing of files.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Numbers = dict[str, Any]
"""What JSON can hold: a number that is not finite is written as None, and keys are strings."""

SIZES = ("tiny", "small", "full")
"""Seconds, for tests; minutes on two cores, the default; what a GPU is for."""


def _silent(*told: object) -> None:
    pass


@dataclass(frozen=True)
class Setting:
    """Where an experiment runs, and how it speaks to whoever waits for it."""

    seed: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    data: Path = Path("data")
    """The folder of data sets; only the full size may need one."""
    jobs: int = 1
    """Processes an experiment may use at once."""
    note: Callable[[str], None] = _silent
    """Says one line to the person who waits."""
    progress: Callable[[int, int, str], None] = _silent
    """`progress(done, total, what)`: how far a part has come, and what the part is called."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Networks this small are faster on one thread: several spend their time waiting for one another."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True)
class Verdict:
    """Whether the claim held, and the numbers that say so in one sentence without a full stop."""

    held: bool
    sentence: str
    but: str = ""
    """Where the same numbers say otherwise, in a few words: a claim may hold by its rule and not everywhere."""


class Experiment(ABC):
    """One claim. The class attributes are literals: `regard lab` reads them without importing the file."""

    claim: ClassVar[str]
    """The lecture's claim in one sentence."""
    lecture: ClassVar[str]
    """Its place in the course: `F8`."""
    threshold: ClassVar[str]
    """The rule of the verdict in words, with its numbers, as it was fixed before measuring."""
    code: ClassVar[tuple[str, ...]]
    """Dotted paths of the functions and classes of ours that compute it."""
    title: ClassVar[str] = ""
    """The head of its page, where the name on the command line would read badly."""
    data: ClassVar[tuple[str, ...]] = ()
    """The data sets that its full size reads, as `regard data get` names them."""
    timed: ClassVar[tuple[str, ...]] = ()
    """Keys of the numbers, at any depth, that hold times: all others are the same whenever the seed is."""

    @abstractmethod
    def run(self, size: str, setting: Setting) -> Numbers:
        """Measures; `size` is one of SIZES."""

    @abstractmethod
    def table(self, numbers: Numbers) -> list[list[str]]:
        """The numbers worth reading; the first row is the head."""

    @abstractmethod
    def verdict(self, numbers: Numbers) -> Verdict: ...

    def remark(self, numbers: Numbers) -> str:
        """What one should know to read these numbers, if anything, in whole sentences."""
        return ""

    @abstractmethod
    def figure(self, numbers: Numbers) -> Figure:
        """The numbers worth seeing, drawn with _drawing.py."""
