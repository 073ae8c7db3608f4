"""Fingerprints of a run's data: size and SHA-256 of every file, kept in RUN/data.json and compared on resume.

Which examples are held out depends on the data, so a run resumes only with the data it started with. Paths and times
are not part of a fingerprint: a copy in another folder is the same data. What is at a URL has size and version as the
storage states them. Files are hashed completely (a sample would
miss an edit in place), several in parallel; at 1 GB/s or more per core that is a hundredth of the time of tokenising.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from regard.atomic_files import sha256
from regard.data.archive import open_archive
from regard.data.corpus.reading import split_column
from regard.data.corpus.shards import is_url, version
from regard.errors import UserError
from regard.storage import write_file

FILE = "data.json"
Paths = Mapping[str, Sequence[str]]
"""The paths of each key of the data section."""
Fingerprints = dict[str, list[dict[str, Any]]]
"""For each key and path: the column, if one is named, and [size, SHA-256] of each file, by its name within a folder or
by "" for a single file."""


def fingerprints(paths: Paths) -> Fingerprints:
    """Computes the fingerprints of all paths; every file is read once."""
    roots = {name: split_column(name)[0] for names in paths.values() for name in names if not is_url(name)}
    listed = {(root, name): root / name for root in set(roots.values()) for name in _names(root)}
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        hashed = dict(zip(listed, pool.map(_size_and_hash, listed.values())))
    urls = [name for names in paths.values() for name in names if is_url(name)]
    with ThreadPoolExecutor(16) as pool:  # they wait for the storage
        versions = dict(zip(urls, pool.map(version, urls)))
    of_root: dict[Path, dict[str, list[Any]]] = {}
    for (root, name), found in sorted(hashed.items()):
        of_root.setdefault(root, {})[name] = found
    return {
        key: [
            {"column": None, "files": {"": versions[name]}}
            if name in versions
            else {"column": split_column(name)[1], "files": of_root.get(roots[name], {})}
            for name in names
        ]
        for key, names in paths.items()
        if names
    }


def _names(root: Path) -> list[str]:
    """The files of a folder as formats list them; [""] for a file."""
    if not root.is_dir():
        return [""]
    with open_archive(root) as archive:
        return [name for name in archive.names if (root / name).is_file()]


def _size_and_hash(file: Path) -> list[Any]:
    try:
        return [file.stat().st_size, sha256(file)]
    except OSError as error:
        raise UserError(
            f"{file} cannot be read ({error.strerror or error}); put it back, or name the place where it is now"
        ) from None


def write_fingerprints(run: Path, found: Fingerprints) -> None:
    write_file(run / FILE, (json.dumps(found, indent=1, sort_keys=True) + "\n").encode())


def read_fingerprints(run: Path) -> Fingerprints | None:
    """The fingerprints that a run started with; None for runs from before there were any."""
    path = run / FILE
    if not path.is_file():
        return None
    try:
        found = {
            key: [{"column": entry["column"], "files": dict(entry["files"])} for entry in entries]
            for key, entries in json.loads(path.read_text(encoding="utf-8")).items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UserError(f"{path} is damaged; take it from a copy, or remove it to go on without comparison") from None
    return found


def refuse_changes(run: Path, begun: Fingerprints, now: Fingerprints, paths: Paths) -> None:
    """Refuses data that differ from those the run started with; the error names the file."""
    for key, names in paths.items():
        before, after = begun.get(key, []), now.get(key, [])
        if len(before) != len(after):
            raise _changed(f"data.{key} named {len(before)} path(s) when {run} was begun, not {len(after)}", run)
        for name, old, new in zip(names, before, after):
            if old["column"] != new["column"]:
                raise _changed(f"{name} is not the column that {run} was begun with", run)
            for file in sorted({**old["files"], **new["files"]}):
                where = f"{name}: {file!r}" if file else name
                was, is_ = old["files"].get(file), new["files"].get(file)
                if was != is_:
                    raise _changed(f"{where} {_difference(was, is_)} since {run} was begun", run)


def _difference(was: Sequence[Any] | None, is_: Sequence[Any] | None) -> str:
    if was is None:
        return "was added"
    if is_ is None:
        return "was removed"
    sizes = f"{was[0]:,} bytes then, {is_[0]:,} now" if was[0] != is_[0] else "the same size, other content"
    return f"was changed ({sizes})"


def _changed(what: str, run: Path) -> UserError:
    return UserError(
        f"{what}; held-out examples could have been trained on: put the data back as they were, or train a new run "
        f"on the new data (--start {run} begins with this one's weights)"
    )
