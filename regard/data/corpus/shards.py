"""Parallel text in shards at URLs (`s3://...`, `https://...`): lists them, and fetches one at a time to the local disk.

Files are read through fsspec in ranges, so a connection that is cut costs one range, which is asked for again.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from regard.atomic_files import is_abandoned, temporary_name
from regard.cache_folder import cache_folder
from regard.config import Data
from regard.data.corpus.reading import is_table
from regard.errors import UserError

T = TypeVar("T")

RANGE = 8 << 20
"""Bytes asked for at a time."""
TRIES = 6
PAUSE = 1.0
"""Seconds before the second try; twice as long before each further one."""


class Shard(NamedTuple):
    source: str
    target: str
    """Empty where the source is a table of both."""


def is_url(path: str | Path) -> bool:
    return "://" in str(path)


def in_shards(data: Data) -> bool:
    """Whether the training text is at URLs."""
    return any(map(is_url, data.source))


def listed(urls: Sequence[str]) -> list[str]:
    """The URLs with their patterns (`*`, `?`, `[...]`) resolved, in alphabetical order."""
    found: list[str] = []
    for url in urls:
        if not is_url(url) or not any(sign in url for sign in "*?["):
            found.append(url)
            continue
        system, path = _opened(url)
        names = _retried(url, lambda system=system, path=path: sorted(system.glob(path)))  # type: ignore[misc]
        if not names:
            raise UserError(f"data: nothing is at {url}; check the URL")
        found += [system.unstrip_protocol(name) for name in names]
    return found


def shards_of(data: Data) -> list[Shard]:
    """The shards of the training text; refuses what cannot be one."""
    others = [*data.valid_source, *data.valid_target, *data.hold_out, *data.train, *data.valid, *data.test]
    others += [path for entry in data.pairs for path in (*entry.source, *entry.target)]
    if stray := [path for path in others if is_url(path)]:
        raise UserError(f"data: {stray[0]} is a URL, which only data.source and data.target can be; fetch the file")
    if local := [path for path in (*data.source, *data.target) if not is_url(path)]:
        raise UserError(f"data: {local[0]} is a local file and {data.source[0]} is a URL; name only one of the kinds")
    if data.hold_out:
        raise UserError("data.hold_out: pairs are held out from the first shards; leave it out")
    if not data.target and all(is_table(Path(url)) for url in data.source):
        return [Shard(url, "") for url in data.source]
    if len(data.source) != len(data.target):
        raise UserError(f"data: {len(data.source)} source shards but {len(data.target)} target shards; name as many")
    return list(map(Shard, data.source, data.target))


def version(url: str) -> list[Any]:
    """Size of the file at a URL, and a word that changes with its content, as far as the storage knows."""
    system, path = _opened(url)
    return _retried(url, lambda: [int(system.info(path)["size"]), str(system.ukey(path))])


def fetch(url: str, folder: Path, stopped: threading.Event | None = None) -> Path:
    """Copies the file at a URL into a folder, under the last part of its name; cancelled once `stopped` is set."""
    system, path = _opened(url)
    size = int(_retried(url, lambda: system.info(path)["size"]))
    file = folder / Path(path).name
    try:
        with file.open("wb") as stream:
            for start in range(0, size, RANGE):
                if stopped is not None and stopped.is_set():
                    raise CancelledError
                stream.write(_retried(url, lambda start=start: _range(system, path, start, min(size, start + RANGE))))  # type: ignore[misc]
    except OSError as error:
        raise UserError(f"{file}: {url} cannot be copied there ({error.strerror or error}); make room") from None
    return file


def local_folder() -> Path:
    """A new folder for shards on this machine's own disk. Removes those that killed processes left."""
    above = cache_folder() / "shards"
    above.mkdir(parents=True, exist_ok=True)
    for old in above.glob(".*.tmp"):
        if is_abandoned(old):
            shutil.rmtree(old, ignore_errors=True)
    made = above / temporary_name("shards")
    made.mkdir()
    return made


def _range(system: Any, path: str, start: int, end: int) -> bytes:
    content: bytes = system.cat_file(path, start=start, end=end)
    if len(content) != end - start:
        raise EOFError(f"{len(content):,} of {end - start:,} bytes came")
    return content


def _opened(url: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise UserError(f"{url}: reading URLs needs a package; pip install 'regard[remote]'") from None
    try:
        system, path = url_to_fs(url)
    except (ImportError, ValueError) as error:  # no package for this kind of storage, or no such kind
        raise UserError(f"{url}: {error}") from None
    return system, path


def _retried(url: str, do: Callable[[], T]) -> T:
    """Tries again after any error but that nothing is there or that it may not be read."""
    for turn in range(TRIES):
        try:
            return do()
        except (FileNotFoundError, PermissionError) as error:
            raise UserError(f"{url}: cannot be read ({_why(error)}); check the URL and who may read it") from None
        except Exception as error:  # each storage has errors of its own
            if turn == TRIES - 1:
                raise UserError(f"{url}: cannot be read after {TRIES} tries ({_why(error)}); try later") from None
            time.sleep(PAUSE * 2**turn)
    raise AssertionError


def _why(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0].removesuffix(": ")
