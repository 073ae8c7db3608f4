"""A corpus as token ids in flat files on disk, written in one stream and read through memory maps.

A pack is a folder: `source.ids` and `target.ids` (uint16 or uint32), `source.offsets` and `target.offsets` (int64:
where each sentence starts, and the last one ends) and `pack.json`. Sentences have neither BEGIN nor END.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.corpus.filters import Filters
from regard.data.corpus.hold_out import HeldOut
from regard.data.corpus.reading import Pair, split_column
from regard.data.flat import Sentences
from regard.errors import UserError

Encode = Callable[[Sequence[str]], list[list[int]]]

_VERSION = 1
_CHUNK = 16384


class Pack:
    """Tokenised pairs on disk: as many as fit the disk, at the price of no memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.about: dict[str, Any] = json.loads((folder / "pack.json").read_text())
        """Counts, settings and fingerprint, as they were written."""
        self._maps: list[mmap.mmap] = []
        self.source, self.target = self._open("source"), self._open("target")

    def _open(self, side: str) -> Sentences:
        arrays = []
        for name, dtype in (("ids", self.about["dtype"]), ("offsets", "<i8")):
            with (self.folder / f"{side}.{name}").open("rb") as stream:
                self._maps.append(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
            if hasattr(mmap, "MADV_RANDOM"):
                self._maps[-1].madvise(mmap.MADV_RANDOM)  # neighbours in the file are not neighbours in a batch
            arrays.append(np.frombuffer(self._maps[-1], dtype))
        return Sentences(*arrays)

    def __len__(self) -> int:
        return self.about["pairs"]

    @property
    def dropped(self) -> dict[str, int]:
        """How many pairs were left out, by reason."""
        return self.about["dropped"]

    def lengths(self, indexes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.source.lengths(indexes), self.target.lengths(indexes)

    def longest(self) -> tuple[int, int]:
        """The tokens of the longest source and of the longest target."""
        return self.about["longest"]["source"], self.about["longest"]["target"]

    def pair(self, index: int) -> tuple[list[int], list[int]]:
        return self.source[index], self.target[index]

    def release(self) -> None:
        """Gives the pages that were read back to the system, so that resident memory does not follow the corpus."""
        if hasattr(mmap, "MADV_DONTNEED"):
            for map_ in self._maps:
                map_.madvise(mmap.MADV_DONTNEED)


def pack_pairs(
    pairs: Iterable[Pair],
    source_encode: Encode,
    target_encode: Encode,
    folder: Path,
    *,
    vocabulary: int,
    filters: Filters | None = None,
    held_out: HeldOut | None = None,
    fingerprint: str = "",
    progress: Callable[[int], None] | None = None,
) -> Pack:
    """Filters, tokenises and writes a stream of pairs; `progress` hears how many lines were read so far.

    The encoders are a tokenizer's `encode_many`; `vocabulary` is the larger number of ids and sets the width on disk.
    """
    filters = filters or Filters()
    dtype = np.dtype("<u2" if vocabulary <= 1 << 16 else "<u4")
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)  # what an interrupted run left
    read = withheld = 0
    try:
        partial.mkdir(parents=True)
        with _Writer(partial, "source", dtype) as source, _Writer(partial, "target", dtype) as target:
            for part in _chunks(pairs):
                read += len(part)
                if held_out is not None:
                    before, part = len(part), [pair for pair in part if not held_out.has(*pair)]
                    withheld += before - len(part)
                part = filters.by_text(part)
                if part:
                    sources = source_encode([pair[0] for pair in part])
                    targets = target_encode([pair[1] for pair in part])
                    keep = filters.by_length(_lengths(sources), _lengths(targets)).tolist()
                    source.write([ids for ids, kept in zip(sources, keep, strict=True) if kept])
                    target.write([ids for ids, kept in zip(targets, keep, strict=True) if kept])
                if progress is not None:
                    progress(read)
        dropped = {"held_out": withheld, **filters.dropped}
        if source.count == 0:
            reasons = ", ".join(f"{name} {count}" for name, count in dropped.items() if count)
            raise UserError(f"data: no pairs left to train on, of {read} read ({reasons}); loosen data.* or add text")
        about = {
            "version": _VERSION,
            "fingerprint": fingerprint,
            "dtype": dtype.str,
            "read": read,
            "pairs": source.count,
            "dropped": dropped,
            "tokens": {"source": source.tokens, "target": target.tokens},
            "longest": {"source": source.longest, "target": target.longest},
        }
        _write_synced(partial / "pack.json", json.dumps(about, indent=1).encode())
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(partial, folder)
    except OSError as error:
        raise UserError(f"{folder}: the tokenised corpus cannot be written ({error}); check the disk") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return Pack(folder)


def open_pack(folder: Path, fingerprint: str) -> Pack | None:
    """The pack in a folder if it is whole and was made of just these inputs, else None."""
    try:
        about = json.loads((folder / "pack.json").read_text())
        width = np.dtype(about["dtype"]).itemsize
        sizes = {f"{side}.ids": width * about["tokens"][side] for side in ("source", "target")}
        sizes |= {f"{side}.offsets": 8 * (about["pairs"] + 1) for side in ("source", "target")}
        whole = all((folder / name).stat().st_size == size for name, size in sizes.items())
        same = about["version"] == _VERSION and about["fingerprint"] == fingerprint
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Pack(folder) if whole and same else None


def fingerprint(paths: Iterable[str | Path], settings: Mapping[str, Any], tokenizer_files: Mapping[str, bytes]) -> str:
    """One hash of all that a pack depends on: the files' sizes and times, the settings, the tokenizer."""
    files = []
    for path in paths:
        status = split_column(path)[0].stat()
        files.append([str(path), status.st_size, status.st_mtime_ns])
    tokenizer = {name: hashlib.sha256(content).hexdigest() for name, content in tokenizer_files.items()}
    everything = json.dumps([_VERSION, files, dict(settings), tokenizer], sort_keys=True, default=str)
    return hashlib.sha256(everything.encode()).hexdigest()


class _Writer:
    """Appends sentences to the two files of one side."""

    def __init__(self, folder: Path, side: str, dtype: np.dtype) -> None:
        self._dtype = dtype
        self._ids = (folder / f"{side}.ids").open("wb")
        self._offsets = (folder / f"{side}.offsets").open("wb")
        self._offsets.write(np.zeros(1, "<i8").tobytes())
        self.count = self.tokens = self.longest = 0

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self._ids.close()
        self._offsets.close()

    def write(self, sentences: list[list[int]]) -> None:
        if not sentences:
            return
        lengths = _lengths(sentences)
        ends = lengths.cumsum()
        self._ids.write(np.fromiter(chain.from_iterable(sentences), self._dtype, int(ends[-1])).tobytes())
        self._offsets.write((self.tokens + ends).astype("<i8").tobytes())
        self.count += len(sentences)
        self.tokens += int(ends[-1])
        self.longest = max(self.longest, int(lengths.max()))


def _lengths(sentences: list[list[int]]) -> np.ndarray:
    return np.fromiter(map(len, sentences), np.int64, len(sentences))


def _chunks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    stream = iter(pairs)
    while part := list(islice(stream, _CHUNK)):
        yield part


def _write_synced(file: Path, content: bytes) -> None:
    with file.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
