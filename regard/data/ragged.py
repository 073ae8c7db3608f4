"""A ragged array of sentences: all ids concatenated, and the offset of each sentence; in memory or on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


class Sentences:
    """Sentence i is `ids[offsets[i] : offsets[i + 1]]`."""

    def __init__(self, ids: np.ndarray, offsets: np.ndarray) -> None:
        self.ids = ids
        self.offsets = offsets

    @classmethod
    def of_lengths(cls, ids: np.ndarray, lengths: np.ndarray) -> Sentences:
        import numpy as np  # here, not above: it takes 0.1 s, and translating needs none

        return cls(ids, np.concatenate([[0], lengths.cumsum()]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> list[int]:
        return self.ids[self.offsets[index] : self.offsets[index + 1]].tolist()

    def lengths(self, indexes: np.ndarray) -> np.ndarray:
        return self.offsets[indexes + 1] - self.offsets[indexes]

    def gather(self, indexes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The concatenated ids of some sentences, and the length of each."""
        import numpy as np

        lengths = self.lengths(indexes)
        before = lengths.cumsum() - lengths
        positions = np.repeat(self.offsets[indexes] - before, lengths) + np.arange(lengths.sum())
        return self.ids[positions], lengths
