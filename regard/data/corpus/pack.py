"""A tokenised corpus in flat files on disk, written as a stream and read through memory maps.

A pack is a folder: `source.ids` and `target.ids` (uint16 or uint32), `source.offsets` and `target.offsets` (int64: the
start of each sentence and the end of the last) and `pack.json`. Sentences have neither BEGIN nor END.
A large corpus is packed in parts, and `pack.json` is rewritten after each: what it describes can be read while more is
appended, and interrupted packing resumes after it and gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from regard.data.corpus.filters import Filters
from regard.data.corpus.hold_out import HeldOut
from regard.data.corpus.reading import Pair, split_column
from regard.data.ragged import Sentences
from regard.errors import UserError

Encode = Callable[[Sequence[str]], list[list[int]]]

_VERSION = 1
_CHUNK = 16384
_CHUNK_TEXT = 1 << 23
"""Most pairs, and characters, in memory at a time."""
_SIDES = ("source", "target")


class Part(NamedTuple):
    """A range of consecutive pairs of a pack."""

    number: int
    first: int
    pairs: int
    longest: tuple[int, int]
    """Tokens of the longest source and of the longest target."""


class Growth(Protocol):
    """A writer that appends to a pack while it is read."""

    def start(self) -> None: ...

    def wait(self) -> None:
        """Returns after a moment; raises when nothing more will be appended."""
        ...

    def stop(self) -> None: ...


class Pack:
    """Tokenised pairs on disk, read through memory maps."""

    def __init__(
        self, folder: Path, growth: Growth | None = None, grown: Callable[[Pack], None] = lambda pack: None
    ) -> None:
        """An incomplete pack needs a `growth`; `grown` is called when it is complete."""
        self.folder = folder
        self._growth, self._grown = growth, grown
        self._refreshing = threading.Lock()
        self.about: dict[str, Any] = {}
        """The content of `pack.json`: counts, settings, fingerprint."""
        self._refresh()

    def _refresh(self) -> None:
        """Reads `pack.json` again."""
        about = json.loads((self.folder / "pack.json").read_text())
        if about == self.about:
            return
        self._maps: list[mmap.mmap] = []
        self.source, self.target = (self._open(side, about) for side in _SIDES)
        self.about = about

    def _open(self, side: str, about: Mapping[str, Any]) -> Sentences:
        arrays = []
        for name, size in _sizes(about, side).items():
            with (self.folder / name).open("rb") as stream:
                self._maps.append(mmap.mmap(stream.fileno(), size, access=mmap.ACCESS_READ))
            if hasattr(mmap, "MADV_RANDOM"):
                self._maps[-1].madvise(mmap.MADV_RANDOM)  # batches read all over the file
            arrays.append(np.frombuffer(self._maps[-1], about["dtype"] if name.endswith(".ids") else "<i8"))
        return Sentences(*arrays)

    def __len__(self) -> int:
        return self.about["pairs"]

    @property
    def whole(self) -> bool:
        return self.about.get("whole", True)

    @property
    def dropped(self) -> dict[str, int]:
        """Number of dropped pairs by reason."""
        return self.about["dropped"]

    def __str__(self) -> str:
        dropped = ", ".join(f"{name} {count:,}" for name, count in self.dropped.items() if count) or "none"
        return f"{len(self):,} pairs to train on of {self.about['read']:,}; dropped: {dropped}"

    def lengths(self, indexes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.source.lengths(indexes), self.target.lengths(indexes)

    def longest(self) -> tuple[int, int]:
        """The tokens of the longest source and of the longest target."""
        return _both(self.about["longest"])

    def pair(self, index: int) -> tuple[list[int], list[int]]:
        return self.source[index], self.target[index]

    def release(self) -> None:
        """Returns pages to the system, so that resident memory does not grow with the corpus."""
        if hasattr(mmap, "MADV_DONTNEED"):
            for map_ in self._maps:
                map_.madvise(mmap.MADV_DONTNEED)

    # ------------------------------------------------------------------------------------------------------- growing

    def parts(self) -> Iterator[Part]:
        """All parts in order; waits for those that are still being packed."""
        number = first = 0
        while True:
            while number >= len(_parts(self.about)) and not self.whole:
                self._wait()
            if number >= len(_parts(self.about)):
                return
            found = _parts(self.about)[number]
            yield Part(number, first, found["pairs"], _both(found["longest"]))
            number, first = number + 1, first + found["pairs"]

    def everything(self) -> Part:
        """All pairs as one part; waits until the pack is complete."""
        while not self.whole:
            self._wait()
        return Part(0, 0, len(self), self.longest())

    def grow(self) -> None:
        """Continues packing an incomplete pack, until `stop`."""
        if self._growth and not self.whole:
            self._growth.start()

    def stop(self) -> None:
        if self._growth:
            self._growth.stop()

    def _wait(self) -> None:
        if self._growth is None:
            raise UserError(f"{self.folder}: the tokenised corpus is not whole; resume the run that made it")
        failure: UserError | None = None
        try:
            self._growth.wait()
        except UserError as error:
            failure = error
        with self._refreshing:
            known = len(_parts(self.about))
            if not self.whole:
                self._refresh()
                if self.whole:
                    self._grown(self)
            if failure and len(_parts(self.about)) == known:  # first, all parts that were packed before it
                raise failure


def open_pack(
    folder: Path, fingerprint: str, growth: Growth | None = None, grown: Callable[[Pack], None] = lambda pack: None
) -> Pack | None:
    """The pack in a folder if its fingerprint matches and it is complete or can still grow, else None."""
    about = _description(folder, fingerprint)
    if about is None or not about["pairs"] or not (about.get("whole", True) or growth):
        return None
    return Pack(folder, growth, grown)


def _description(folder: Path, fingerprint: str) -> dict[str, Any] | None:
    """The content of `pack.json` if its fingerprint matches and all files are there."""
    try:
        about = json.loads((folder / "pack.json").read_text())
        sizes = {name: size for side in _SIDES for name, size in _sizes(about, side).items()}
        # Interrupted packing leaves extra bytes.
        there = {name: (folder / name).stat().st_size for name in sizes}
        fits = all(there[name] == size or (there[name] > size and not about["whole"]) for name, size in sizes.items())
        same = about["version"] == _VERSION and about["fingerprint"] == fingerprint
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return about if fits and same else None


def _sizes(about: Mapping[str, Any], side: str) -> dict[str, int]:
    """Sizes of the two files of a side in bytes."""
    width = np.dtype(about["dtype"]).itemsize
    return {f"{side}.ids": width * about["tokens"][side], f"{side}.offsets": 8 * (about["pairs"] + 1)}


def _parts(about: Mapping[str, Any]) -> list[dict[str, Any]]:
    return about.get("parts") or [about]  # older packs of one part do not list it


def _both(sides: Mapping[str, int]) -> tuple[int, int]:
    return sides["source"], sides["target"]


def fingerprint(paths: Iterable[str | Path], settings: Mapping[str, Any], tokenizer_files: Mapping[str, bytes]) -> str:
    """A hash of all that a pack depends on: sizes and times of the files, settings, tokenizer."""
    files = []
    for path in paths:
        status = split_column(path)[0].stat()
        files.append([str(path), status.st_size, status.st_mtime_ns])
    tokenizer = {name: hashlib.sha256(content).hexdigest() for name, content in tokenizer_files.items()}
    everything = json.dumps([_VERSION, files, dict(settings), tokenizer], sort_keys=True, default=str)
    return hashlib.sha256(everything.encode()).hexdigest()


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
    part: int = 0,
) -> Pack:
    """Filters, tokenises and writes a stream of pairs; `progress` is called with the number of lines read so far.

    The encoders are a tokenizer's `encode_many`; `vocabulary`, the larger number of ids, sets the integer size.
    With `part`, the pack can be read and resumed after every `part` lines.
    """
    filters = filters or Filters()
    about = _description(folder, fingerprint) if part else None
    if about is not None and about["whole"]:
        return Pack(folder)
    about = about or empty_description(fingerprint, "<u2" if vocabulary <= 1 << 16 else "<u4")
    for reason in ("too_long", "ratio"):  # the other filters run again
        filters.dropped[reason] = about["dropped"].get(reason, 0)
    packed = about["read"]
    read = withheld = 0

    def dropped() -> dict[str, int]:
        return {"held_out": withheld, **filters.dropped}

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with Writer(folder, about) as writer:
            for lines in chunks(pairs, part):
                read += len(lines)
                lines = filters.by_size(lines)
                kept = [pair for pair in lines if not held_out.has(*pair)] if held_out is not None else lines
                withheld += len(lines) - len(kept)
                kept = filters.by_text(kept)  # filters have state, so they see resumed lines too
                if read > packed and kept:
                    sources, targets = source_encode([s for s, _ in kept]), target_encode([t for _, t in kept])
                    fits = filters.by_length(lengths_of(sources), lengths_of(targets)).tolist()
                    writer.write(list(compress(sources, fits)), list(compress(targets, fits)))
                if read > packed and part and read % part == 0:
                    writer.record(read, dropped())
                if progress is not None:
                    progress(read)
            if about["pairs"] == 0:
                reasons = ", ".join(f"{name} {count}" for name, count in dropped().items() if count)
                raise UserError(
                    f"data: no pairs left to train on, of {read} read ({reasons}); loosen data.* or add text"
                )
            writer.record(read, dropped(), whole=True)
    except OSError as error:
        raise UserError(f"{folder}: the tokenised corpus cannot be written ({error}); check the disk") from None
    finally:
        if not about["read"]:
            shutil.rmtree(folder, ignore_errors=True)
    return Pack(folder)


def empty_description(fingerprint: str, dtype: str) -> dict[str, Any]:
    """The description of an empty pack."""
    return {
        "version": _VERSION,
        "fingerprint": fingerprint,
        "dtype": dtype,
        "read": 0,
        "pairs": 0,
        "dropped": {},
        "tokens": dict.fromkeys(_SIDES, 0),
        "longest": dict.fromkeys(_SIDES, 0),
        "parts": [],
        "whole": False,
    }


class Writer:
    """Appends to the files of a pack and updates its description."""

    def __init__(self, folder: Path, about: dict[str, Any]) -> None:
        self._folder, self._about = folder, about
        if not about["parts"]:
            (folder / "pack.json").unlink(missing_ok=True)  # it describes files that are overwritten now
        self._files = {}
        for side in _SIDES:
            for name, size in _sizes(about, side).items():
                self._files[name] = (folder / name).open("ab")
                self._files[name].truncate(size)  # an empty offsets file becomes one zero
        self._begin_part()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()

    def _begin_part(self) -> None:
        self._part: dict[str, Any] = {"pairs": 0, "longest": dict.fromkeys(_SIDES, 0)}

    def write(self, *sides: list[list[int]]) -> None:
        if not sides[0]:
            return
        for side, sentences in zip(_SIDES, sides, strict=True):
            lengths = lengths_of(sentences)
            ends = lengths.cumsum()
            ids = np.fromiter(chain.from_iterable(sentences), self._about["dtype"], int(ends[-1]))
            self._files[f"{side}.ids"].write(ids.tobytes())
            self._files[f"{side}.offsets"].write((self._about["tokens"][side] + ends).astype("<i8").tobytes())
            self._about["tokens"][side] += int(ends[-1])
            for longest in (self._about["longest"], self._part["longest"]):
                longest[side] = max(longest[side], int(lengths.max()))
        self._about["pairs"] += len(sides[0])
        self._part["pairs"] += len(sides[0])

    def record(self, read: int, dropped: Mapping[str, int], whole: bool = False) -> None:
        """Publishes everything written so far."""
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
        if read > self._about["read"]:
            self._about["parts"].append(self._part)
            self._begin_part()
        self._about |= {"read": read, "dropped": dict(dropped), "whole": whole}
        new = self._folder / "pack.json.new"
        _write_synced(new, json.dumps(self._about, indent=1, sort_keys=True).encode())
        os.replace(new, self._folder / "pack.json")


def chunks(pairs: Iterable[Pair], part: int) -> Iterator[list[Pair]]:
    """Chunks of pairs, limited in number and text; a part ends a chunk."""
    lines: list[Pair] = []
    text = 0
    for read, pair in enumerate(pairs, 1):
        lines.append(pair)
        text += len(pair[0]) + len(pair[1])
        if len(lines) == _CHUNK or text >= _CHUNK_TEXT or (part and read % part == 0):
            yield lines
            lines, text = [], 0
    if lines:
        yield lines


def lengths_of(sentences: list[list[int]]) -> np.ndarray:
    return np.fromiter(map(len, sentences), np.int64, len(sentences))


def _write_synced(file: Path, content: bytes) -> None:
    with file.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
