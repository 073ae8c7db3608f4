"""The interface of experiments: a claim of the lectures, measurements, and a rule for the verdict, fixed beforehand.

`run` measures and returns plain numbers; table, verdict and figure are pure functions of them, so that a page can be
regenerated from a file and a test can show which numbers would flip the verdict.
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
"""JSON values: numbers that are not finite become None, and keys are strings."""

SIZES = ("tiny", "small", "full")
"""tiny takes seconds, for tests; small takes minutes on two cores and is the default; full is for a GPU."""


def _silent(*told: object) -> None:
    pass


@dataclass(frozen=True)
class Setting:
    """Where an experiment runs, and how it reports progress."""

    seed: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    data: Path = Path("data")
    """The folder of data sets, which only the full size needs."""
    jobs: int = 1
    """Number of parallel processes."""
    note: Callable[[str], None] = _silent
    """Prints one line for the user."""
    progress: Callable[[int, int, str], None] = _silent
    """`progress(done, total, what)` reports the progress of a named part."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Context with one thread: networks this small are slower on several."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True)
class Verdict:
    """Whether the claim held, with the numbers in one sentence without a full stop."""

    held: bool
    sentence: str
    but: str = ""
    """Exceptions in a few words: a claim may hold by its rule but not everywhere."""


class Experiment(ABC):
    """One claim. The class attributes are literals: `regard lab` reads them without importing the file."""

    claim: ClassVar[str]
    """The lecture's claim in one sentence."""
    lecture: ClassVar[str]
    """Its number in the course, such as `F8`."""
    threshold: ClassVar[str]
    """The rule for the verdict in words, with its thresholds, fixed before measuring."""
    code: ClassVar[tuple[str, ...]]
    """Dotted paths of the functions and classes that compute it."""
    title: ClassVar[str] = ""
    """The heading of its page, if it differs from the name on the command line."""
    data: ClassVar[tuple[str, ...]] = ()
    """The data sets that its full size reads, as `regard data get` names them."""
    timed: ClassVar[tuple[str, ...]] = ()
    """Keys of timings in the numbers, at any depth; all other numbers are reproducible by the seed."""

    @abstractmethod
    def run(self, size: str, setting: Setting) -> Numbers:
        """Measures; `size` is one of SIZES."""

    @abstractmethod
    def table(self, numbers: Numbers) -> list[list[str]]:
        """The main numbers; the first row is the header."""

    @abstractmethod
    def verdict(self, numbers: Numbers) -> Verdict: ...

    def remark(self, numbers: Numbers) -> str:
        """Notes on the numbers in full sentences, if any."""
        return ""

    @abstractmethod
    def figure(self, numbers: Numbers) -> Figure:
        """A figure of the main numbers, drawn with _drawing.py."""
