"""Lexical shortlist: the target tokens that are worth computing for a source. CTranslate2 calls it a vocabulary map.

The candidates of a sentence are the tokens that are always likely, and those to which its source tokens were translated
in the text that the shortlist was learnt from (shortlist_learning.py). The output layer, half of a small decoder's work,
then computes a part of its rows. CTranslate2 uses the union of the candidates of all sentences of a batch.

    shortlist.safetensors    a file of the model folder, integers only
        always               the candidates of every sentence
        counts               for each source token, the number of its candidates
        candidates           these candidates, source token after source token
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regard.errors import UserError
from regard.safetensors_header import read_header

FILE = "shortlist.safetensors"
VMAP = "vmap.txt"
MAX_BYTES = 64 << 20
"""The largest file, and the largest vmap.txt made from one."""
_TYPES = {"I16": np.dtype("<i2"), "I32": np.dtype("<i4")}
_SEPARATORS = " \t\r\n"
"""What separates keys, tokens and lines in vmap.txt."""


@dataclass(frozen=True)
class Shortlist:
    """Target ids by source id; the legend is in the module's docstring."""

    always: np.ndarray
    counts: np.ndarray
    candidates: np.ndarray

    def of(self, token: int) -> np.ndarray:
        """The candidates that a source token adds to those of every sentence."""
        end = int(self.counts[: token + 1].sum())
        return self.candidates[end - int(self.counts[token]) : end]

    def file(self) -> bytes:
        """The content of `shortlist.safetensors`."""
        from safetensors.numpy import save

        kind = "I16" if len(self.counts) <= 1 << 15 else "I32"
        parts = {"always": self.always, "counts": self.counts, "candidates": self.candidates}
        return save({name: ids.astype(_TYPES[kind]) for name, ids in parts.items()})

    def vmap(self, pieces: Sequence[str]) -> bytes:
        """The content of CTranslate2's `vmap.txt`: lines of source token, tab, candidates. Token i is `pieces[i]`."""
        spelled = [piece.encode() for piece in pieces]
        lengths = np.array([len(piece) + 1 for piece in spelled])
        if lengths.sum() + lengths[self.always].sum() + lengths[self.candidates].sum() > MAX_BYTES:
            raise UserError(f"{FILE}: with the tokens spelled out it takes more than {MAX_BYTES >> 20} MB")
        used = np.unique(np.concatenate([self.always, self.candidates, np.flatnonzero(self.counts)]))
        if apart := [pieces[i] for i in used if not pieces[i] or any(mark in pieces[i] for mark in _SEPARATORS)]:
            raise UserError(f"{FILE}: token {apart[0][:20]!r} has white space in it, which CTranslate2 cannot read")
        lines = [b"\t" + b" ".join(spelled[i] for i in self.always)]
        ends = np.cumsum(self.counts)
        for token in np.flatnonzero(self.counts):
            mine = self.candidates[ends[token] - self.counts[token] : ends[token]]
            lines.append(spelled[token] + b"\t" + b" ".join(spelled[i] for i in mine))
        return b"\n".join(lines) + b"\n"


def read(path: Path, vocabulary: int) -> Shortlist:
    """The shortlist of a model folder with so many tokens. Anything else is refused before it is read or used."""

    def refuse(why: str) -> UserError:
        return UserError(f"{path}: not a usable shortlist: {why}")

    tensors = read_header(path).tensors
    if tensors.keys() != {"always", "counts", "candidates"}:
        raise refuse("it must hold always, counts and candidates")
    if any(tensor.dtype not in _TYPES or len(tensor.shape) != 1 for tensor in tensors.values()):
        raise refuse("it must hold lists of integers")
    if max(tensor.end for tensor in tensors.values()) > MAX_BYTES:
        raise refuse(f"it is larger than {MAX_BYTES >> 20} MB")
    if tensors["counts"].shape != (vocabulary,):
        raise refuse(f"it is for {tensors['counts'].shape[0]:,} tokens, the model has {vocabulary:,}")
    from safetensors.numpy import load_file

    arrays = {name: array.astype(np.int64) for name, array in load_file(path).items()}
    found = Shortlist(**arrays)
    if (found.counts < 0).any() or found.counts.sum() != len(found.candidates):
        raise refuse("its counts do not add up")
    for ids in (found.always, found.candidates):
        if len(ids) and not (0 <= ids.min() and ids.max() < vocabulary):
            raise refuse("it names a token that the model does not have")
    return found


class LinkCounts:
    """Counts which target tokens the tokens of a source are translated to."""

    def __init__(self, vocabulary: int):
        self._vocabulary = vocabulary
        self._targets = np.zeros(vocabulary, np.int64)
        self._links = np.zeros(0, np.int64)  # source * vocabulary + target, in order
        self._counts = np.zeros(0, np.float64)

    def add(self, targets: np.ndarray, source_linked: np.ndarray, target_linked: np.ndarray) -> None:
        """Target tokens as they were written, and links: pairs of a source and a target token."""
        self._targets += np.bincount(targets, minlength=self._vocabulary)
        links, counts = np.unique(source_linked.astype(np.int64) * self._vocabulary + target_linked, return_counts=True)
        both = np.concatenate([self._links, links])
        self._links, where = np.unique(both, return_inverse=True)
        self._counts = np.bincount(where, np.concatenate([self._counts, counts]))

    def shortlist(self, per_token: int, always: int) -> Shortlist:
        """The `always` most frequent target tokens, and for each source token itself (names are copied) and the
        `per_token` other targets it is linked to most often."""
        frequent = np.argsort(-self._targets, kind="stable")[:always]
        frequent = np.sort(frequent[self._targets[frequent] > 0])
        source, target = np.divmod(self._links, self._vocabulary)
        rare = ~np.isin(target, frequent) & (source != target)
        source, target, counts = source[rare], target[rare], self._counts[rare]
        best = np.lexsort((target, -counts, source))
        source, target = source[best], target[best]
        first = np.searchsorted(source, source)  # where the links of the same source begin
        kept = np.arange(len(source)) - first < per_token
        itself = np.setdiff1d(np.arange(self._vocabulary), frequent)
        source, target = np.concatenate([itself, source[kept]]), np.concatenate([itself, target[kept]])
        order = np.lexsort((target, source))
        return Shortlist(frequent, np.bincount(source, minlength=self._vocabulary), target[order])
