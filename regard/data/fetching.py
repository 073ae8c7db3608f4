"""Gets the files of a known data set: whole, checked, and nowhere but in its own folder.

Only the standard library. What arrives goes into a hidden `.NAME.part` first; it takes the file's name when its
checksum is right, and stays for the next attempt when the line is cut. The known size is the limit while bytes come in,
whatever a server says. Archives are never extracted, so nothing can be written outside.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import http.client
import io
import os
import shutil
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit

from regard.data.http_opener import opener
from regard.data.known import DataSet, File, check_address
from regard.errors import UserError
from regard.watchdog import watchdog

Show = Callable[[int, int, str], None]
"""Is told how many bytes there are, of how many, and of which file."""
PAUSES = (1.0, 2.0, 4.0)
"""Seconds before another try; after so many tries in a row that brought nothing, it is given up."""
CHUNK = 1 << 16
SLOWEST = 1000
"""Bytes a second: a server that sends less for twice the timeout is taken for one that does not answer."""
TRY_AGAIN = {408, 425, 429, 500, 502, 503, 504}
OFFLINE = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL}


@dataclass(frozen=True)
class Got:
    file: File
    how: str
    """there, copied, downloaded, or either of these and packed here."""


def present(data_set: DataSet, root: Path) -> list[File]:
    """The files that seem to be there, at a glance: by size, or by the size a .gz says it has unpacked."""
    return [file for file in data_set.files if _seems_there(root / data_set.name / file.name, file)]


def get(
    data_set: DataSet,
    root: Path,
    source: str | None = None,
    show: Show = lambda done, total, what: None,
    timeout: float = 30.0,
    pauses: Sequence[float] = PAUSES,
) -> list[Got]:
    """Makes every file of a data set be in `root/NAME`, from its own addresses, a mirror (a URL) or a folder."""
    folder = root / data_set.name
    whole = [file for file in data_set.files if _form(folder / file.name, file) in ("same", "repacked")]
    got = {file: Got(file, "there") for file in whole}
    missing = [file for file in data_set.files if file not in got]
    if not missing:
        return list(got.values())
    places = _places(data_set, missing, source, folder)
    new = _make(folder)
    try:
        for number, (file, place) in enumerate(zip(missing, places)):
            with _Part(folder, file) as part:
                if isinstance(place, Path):
                    form, how = _copy(place, part, show), "copied"
                else:
                    by_hand = _by_hand(data_set, missing[number:], folder)
                    form, how = _download(place, part, show, timeout, pauses, by_hand), "downloaded"
                part.keep(form)
                got[file] = Got(file, f"{how} and packed here" if form == "plain" else how)
    except UserError:
        for made in new:  # empty folders are no trace to leave
            with contextlib.suppress(OSError):
                made.rmdir()
        raise
    return [got[file] for file in data_set.files]


def _places(data_set: DataSet, files: list[File], source: str | None, folder: Path) -> list[Path | str]:
    """Where each file is to come from. That one has no place is said before any of the others is fetched."""
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


# What is in a file.


def _seems_there(path: Path, file: File) -> bool:
    try:
        if path.stat().st_size == file.size:
            return True
        if not file.content_size:
            return False
        with path.open("rb") as stream:
            magic = stream.read(2)
            stream.seek(-4, os.SEEK_END)
            return magic == b"\x1f\x8b" and int.from_bytes(stream.read(4), "little") == file.content_size % 2**32
    except OSError:
        return False


def _form(path: Path, file: File) -> str | None:
    """How a file holds what it should: same (to the byte), plain (not packed), repacked; None when it does not."""
    try:
        size = path.stat().st_size if path.is_file() else 0
        if size == file.size and _sha256(path) == file.sha256:
            return "same"
        if file.content_size:
            if size == file.content_size and _sha256(path) == file.content_sha256:
                return "plain"
            if 0 < size <= file.limit and _holds(path, file):
                return "repacked"
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None
    return None


def _holds(path: Path, file: File) -> bool:
    """Whether a .gz unpacks to the right content; no more than that much is ever unpacked."""
    digest, left = hashlib.sha256(), file.content_size
    try:
        with gzip.open(path, "rb") as stream:
            while chunk := stream.read(min(left + 1, 1 << 20)):
                left -= len(chunk)
                if left < 0:
                    return False
                digest.update(chunk)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        return False
    return digest.hexdigest() == file.content_sha256


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


# The hidden file into which bytes arrive.


class _Part:
    """`.NAME.part` beside where the file will be, for one process at a time; links are never written through."""

    def __init__(self, folder: Path, file: File) -> None:
        self.file = file
        self.target = folder / file.name
        self.path = folder / f".{file.name}.part"
        self.size = 0
        self.kept = False

    def __enter__(self) -> _Part:
        with self._refusing():
            self._stream = self._open()
            self.size = self._stream.seek(0, os.SEEK_END)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):  # what a full disk refuses was said when it was written
            self._stream.close()
        if not self.size and not self.kept:
            self.path.unlink(missing_ok=True)

    def _open(self) -> io.FileIO:
        while True:
            if self.path.is_symlink():
                self.path.unlink()
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
            stream = io.FileIO(os.open(self.path, flags, 0o666), "r+")
            try:
                _lock(stream)
            except BlockingIOError:
                stream.close()
                raise UserError(f"{self.target}: another process is fetching this file; wait for it") from None
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(stream.fileno()), self.path.stat()):
                    return stream
            stream.close()  # it got its name from the process that held it just now

    def write(self, chunk: bytes) -> None:
        with self._refusing():
            rest = memoryview(chunk)
            while rest:  # unbuffered: what was counted is in the file, however we end
                written = self._stream.write(rest)
                self.size, rest = self.size + written, rest[written:]

    def empty(self) -> None:
        with self._refusing():
            self._stream.seek(0)
            self._stream.truncate()
            self.size = 0

    def keep(self, form: str) -> None:
        """Gives the file its name, and packs it first when it came plain."""
        with self._refusing():
            if form == "plain":
                self._pack()
                self.path.unlink()
            else:
                os.fsync(self._stream.fileno())
                self._stream.close()  # some systems rename no open file
                os.replace(self.path, self.target)
        self.kept = True

    def _pack(self) -> None:
        temporary = self.path.with_name(f".{self.file.name}.{os.getpid()}.tmp")
        try:
            self._stream.seek(0)
            with temporary.open("xb") as raw:
                with gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
                    shutil.copyfileobj(self._stream, packed, CHUNK)
                raw.flush()
                os.fsync(raw.fileno())
            os.replace(temporary, self.target)
        finally:
            temporary.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UserError(
                f"cannot write {self.target}: {error.strerror or error}; what was there before is intact; "
                "make room or choose another folder with --data, then run the same command again"
            ) from None


def _make(folder: Path) -> list[Path]:
    """Makes a folder; what of it and above it is new, from the inside out."""
    if folder.is_symlink():
        raise UserError(f"{folder} is a link, and links are not written through; remove it or choose another --data")
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make {folder}: {error.strerror or error}; choose another folder with --data") from None
    return new


def _lock(stream: io.FileIO) -> None:
    with contextlib.suppress(ImportError):  # Windows: two at once would be found out by the checksum
        import fcntl

        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)


# From a folder, and from a server.


def _copy(place: Path, part: _Part, show: Show) -> str:
    file = part.file
    part.empty()
    try:
        with place.open("rb") as stream:
            while chunk := stream.read(CHUNK):
                if part.size + len(chunk) > file.limit:
                    raise UserError(f"{place}: more than the {file.limit:,} bytes that {file.name} can have")
                part.write(chunk)
                show(part.size, file.size, file.name)
        form = _form(part.path, file)
        if form is None:
            raise _mismatch(place, part.path, file)
        return form
    except OSError as error:
        part.empty()
        raise UserError(f"{place}: cannot be read: {error.strerror or error}") from None
    except BaseException:
        part.empty()
        raise


def _mismatch(what: object, path: Path, file: File) -> UserError:
    with path.open("rb") as stream:
        packed = stream.read(2) == b"\x1f\x8b"
    plain = file.content_size and not packed
    size, wanted = (file.content_size, file.content_sha256) if plain else (file.size, file.sha256)
    return UserError(
        f"{what}: not the file that {file.name} must be: sha256 {_sha256(path)} ({path.stat().st_size:,} bytes), "
        f"expected {wanted} ({size:,} bytes); nothing was replaced; take another copy"
    )


class _Cut(Exception):
    """Something that another try may mend."""


class _TooSlow(_Cut):
    """A line that brings something, but too little to wait for."""


def _download(url: str, part: _Part, show: Show, timeout: float, pauses: Sequence[float], by_hand: str) -> str:
    file = part.file
    if part.size and (form := _form(part.path, file)):  # it was all there when somebody stopped us
        return form
    left, anew = list(pauses), False
    while True:
        begin = part.size
        try:
            _receive(url, part, show, timeout, by_hand)
        except _Cut as cut:
            if part.size - begin >= CHUNK and not isinstance(cut, _TooSlow):
                left = list(pauses)  # a line that brings something is worth waiting for
            if not left:
                kept = f" ({part.size:,} bytes are kept for the next try)" if part.size else ""
                raise UserError(f"{url}: {cut}{kept}; try again later, or {by_hand}") from None
            time.sleep(left.pop(0))
            continue
        if form := _form(part.path, file):
            return form
        error = _mismatch(url, part.path, file)
        part.empty()
        if anew or not begin:
            raise error
        anew = True  # the beginning may have been of another file: once more, from there


def _receive(url: str, part: _Part, show: Show, timeout: float, by_hand: str) -> None:
    """One request: appends what comes to what is there. Raises _Cut when there should have been more."""
    file, begin = part.file, part.size
    headers = {"User-Agent": "regard", "Accept-Encoding": "identity"}
    if begin:
        headers["Range"] = f"bytes={begin}-"
    peer: list[socket.socket] = []
    received = 0

    def slow() -> bool:
        nonlocal received
        gained, received = received, 0
        return gained < SLOWEST * 2 * timeout

    request = urllib.request.Request(url, headers=headers)
    too_slow = f"sent less than {SLOWEST:,} bytes a second for {2 * timeout:g} s"
    ended = threading.Event()
    try:
        with (
            watchdog(lambda: peer[-1] if peer else None, 2 * timeout, slow) as ended,
            opener(url, peer.append).open(request, timeout=timeout) as response,
        ):
            if response.status != 206 or not response.headers.get("Content-Range", "").startswith(f"bytes {begin}-"):
                part.empty()
            said = response.headers.get("Content-Length", "")
            whole = part.size + int(said) if said.isdecimal() and len(said) < 20 else 0
            while chunk := response.read1(CHUNK):
                if part.size + len(chunk) > file.limit:
                    part.empty()
                    raise UserError(
                        f"{url}: more than the {file.limit:,} bytes that {file.name} can have; "
                        f"nothing was replaced; {by_hand}"
                    )
                part.write(chunk)
                received += len(chunk)
                show(part.size, min(whole, file.limit) or file.size, file.name)
            if part.size < whole and not ended.is_set():
                raise _Cut(f"ended after {part.size:,} of {whole:,} bytes")
        if ended.is_set():
            raise _TooSlow(too_slow)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and begin:
            return  # there is nothing after what we have
        answer = " ".join(f"answers {error.code} {error.reason}".split())
        if error.code in TRY_AGAIN:
            raise _Cut(answer) from None
        raise UserError(f"{url}: {answer}; {by_hand}") from None
    except (http.client.InvalidURL, ValueError) as error:
        raise UserError(f"{url}: not an address, or leads to none: {error}") from None
    except (OSError, http.client.HTTPException) as error:
        if ended.is_set():
            raise _TooSlow(too_slow) from None
        reason = getattr(error, "reason", error)
        why = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise UserError(f"{url}: its certificate is not trusted: {reason.verify_message}; {by_hand}") from None
        if isinstance(reason, socket.gaierror | ConnectionRefusedError) or getattr(reason, "errno", 0) in OFFLINE:
            raise UserError(f"{urlsplit(url).netloc} cannot be reached ({why}); {by_hand}") from None
        raise _Cut(why) from None
