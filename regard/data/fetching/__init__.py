"""Gets the files of a public data set: complete, verified, and only into the data set's own folder.

Bytes arrive in a hidden `.NAME.part`. It gets the file name once its checksum is right, and stays for the next attempt
when the connection breaks. The declared size limits what is received, whatever a server says. Archives are never
extracted, so nothing can be written elsewhere. Standard library only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.datasets import DataSet, File, check_address
from regard.data.fetching.partial_file import PartialFile
from regard.data.fetching.transfer import Show, copy, download
from regard.data.fetching.verify import Form, seems_present, verified_form
from regard.errors import UserError

PAUSES = (1.0, 2.0, 4.0)
"""Seconds before each further attempt; `get` gives up after this many in a row without progress."""


@dataclass(frozen=True)
class Got:
    file: File
    how: str
    """there, copied, downloaded, or either of these and packed here."""


def present(data_set: DataSet, root: Path) -> list[File]:
    """The files that seem to be there, by a quick look at their sizes."""
    return [file for file in data_set.files if seems_present(root / data_set.name / file.name, file)]


def get(
    data_set: DataSet,
    root: Path,
    source: str | None = None,
    show: Show = lambda done, total, what: None,
    timeout: float = 30.0,
    pauses: Sequence[float] = PAUSES,
) -> list[Got]:
    """Puts every file of a data set into `root/NAME`: from its own addresses, a mirror (a URL) or a folder."""
    folder = root / data_set.name
    complete = [file for file in data_set.files if verified_form(folder / file.name, file) in ("same", "repacked")]
    got = {file: Got(file, "there") for file in complete}
    missing = [file for file in data_set.files if file not in got]
    if not missing:
        return list(got.values())
    origins = _origins(data_set, missing, source, folder)
    new = _make(folder)
    try:
        for number, (file, origin) in enumerate(zip(missing, origins)):
            with PartialFile(folder, file) as part:
                form: Form
                if isinstance(origin, Path):
                    form, how = copy(origin, part, show), "copied"
                else:
                    by_hand = _by_hand(data_set, missing[number:], folder)
                    form, how = download(origin, part, show, timeout, pauses, by_hand), "downloaded"
                part.publish(form)
                got[file] = Got(file, f"{how} and packed here" if form == "plain" else how)
    except UserError:
        for made in new:  # leave no empty folders behind
            with contextlib.suppress(OSError):
                made.rmdir()
        raise
    return [got[file] for file in data_set.files]


def _origins(data_set: DataSet, files: list[File], source: str | None, folder: Path) -> list[Path | str]:
    """Where each file comes from. A file without an origin is reported before any other is fetched."""
    if source is None:
        if lacking := [file for file in files if not file.url]:
            raise UserError(
                f"{data_set.name}: no address has these files as they are needed ({data_set.changed}); "
                + _by_hand(data_set, lacking, folder)
            )
        return [file.url for file in files]
    if "://" in source:
        base = source.rstrip("/")
        base += "" if base.endswith(f"/{data_set.name}") else f"/{data_set.name}"
        check_address(base)
        return [f"{base}/{file.name}" for file in files]
    given = Path(source)
    if not given.is_dir():
        raise UserError(f"{given}: no such folder; --mirror takes a folder with the files of {data_set.name}, or a URL")
    inner = given / data_set.name if (given / data_set.name).is_dir() else given
    found = [_in_folder(inner, file) for file in files]
    if None in found:
        names = ", ".join(file.name for file, place in zip(files, found) if place is None)
        raise UserError(f"{inner}: {names} not found here; name another folder, or put them here or into {folder}")
    return [place for place in found if place is not None]


def _in_folder(folder: Path, file: File) -> Path | None:
    names = [file.name, file.name.removesuffix(".gz"), file.url.rpartition("/")[2] or file.name]
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _by_hand(data_set: DataSet, files: list[File], folder: Path) -> str:
    names = ", ".join(file.name for file in files)
    return f"put {names} (of {data_set.origin}) into {folder}, or give --mirror FOLDER where they are"


def _make(folder: Path) -> list[Path]:
    """Creates a folder and returns the ones that are new, innermost first."""
    if folder.is_symlink():
        raise UserError(f"{folder} is a link, and links are not written through; remove it or choose another --data")
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make {folder}: {error.strerror or error}; choose another folder with --data") from None
    return new
