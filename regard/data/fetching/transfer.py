"""Copies a file of a data set from a folder, or downloads it; an interrupted download resumes where it stopped."""

from __future__ import annotations

import errno
import http.client
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from regard.data.fetching.http_opener import opener
from regard.data.fetching.partial_file import CHUNK, PartialFile
from regard.data.fetching.verify import Form, mismatch, verified_form
from regard.errors import UserError
from regard.watchdog import watchdog

Show = Callable[[int, int, str], None]
"""Progress: bytes so far, bytes in total, file name."""
MIN_BYTES_PER_SECOND = 1000
"""A server slower than this for twice the timeout counts as one that does not answer."""
TRY_AGAIN = {408, 425, 429, 500, 502, 503, 504}
OFFLINE = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL}


class _Interrupted(Exception):
    """A failure that another attempt may repair."""


class _TooSlow(_Interrupted):
    """The server sends too little to wait for."""


def copy(source: Path, part: PartialFile, show: Show) -> Form:
    """Copies a local file into `part` and verifies it."""
    file = part.file
    part.empty()
    try:
        with source.open("rb") as stream:
            while chunk := stream.read(CHUNK):
                if part.size + len(chunk) > file.limit:
                    raise UserError(f"{source}: more than the {file.limit:,} bytes that {file.name} can have")
                part.write(chunk)
                show(part.size, file.size, file.name)
        form = verified_form(part.path, file)
        if form is None:
            raise mismatch(source, part.path, file)
        return form
    except OSError as error:
        part.empty()
        raise UserError(f"{source}: cannot be read: {error.strerror or error}") from None
    except BaseException:
        part.empty()
        raise


def download(url: str, part: PartialFile, show: Show, timeout: float, pauses: Sequence[float], by_hand: str) -> Form:
    """Downloads into `part` and verifies it; `pauses` are the seconds before each further attempt."""
    file = part.file
    if part.size and (form := verified_form(part.path, file)):  # complete when the last run was stopped
        return form
    left, restarted = list(pauses), False
    while True:
        begin = part.size
        try:
            _receive(url, part, show, timeout, by_hand)
        except _Interrupted as failure:
            if part.size - begin >= CHUNK and not isinstance(failure, _TooSlow):
                left = list(pauses)  # it made progress, so keep trying
            if not left:
                kept = f" ({part.size:,} bytes are kept for the next try)" if part.size else ""
                raise UserError(f"{url}: {failure}{kept}; try again later, or {by_hand}") from None
            time.sleep(left.pop(0))
            continue
        if form := verified_form(part.path, file):
            return form
        error = mismatch(url, part.path, file)
        part.empty()
        if restarted or not begin:
            raise error
        restarted = True  # the resumed beginning may have been of another file: download it all once more


def _receive(url: str, part: PartialFile, show: Show, timeout: float, by_hand: str) -> None:
    """One request that appends to `part`. Raises _Interrupted when the response ended early."""
    file, begin = part.file, part.size
    headers = {"User-Agent": "regard", "Accept-Encoding": "identity"}
    if begin:
        headers["Range"] = f"bytes={begin}-"
    sockets: list[socket.socket] = []
    received = 0

    def slow() -> bool:
        nonlocal received
        gained, received = received, 0
        return gained < MIN_BYTES_PER_SECOND * 2 * timeout

    request = urllib.request.Request(url, headers=headers)
    too_slow = f"sent less than {MIN_BYTES_PER_SECOND:,} bytes a second for {2 * timeout:g} s"
    ended = threading.Event()
    try:
        with (
            watchdog(lambda: sockets[-1] if sockets else None, 2 * timeout, slow) as ended,
            opener(url, sockets.append).open(request, timeout=timeout) as response,
        ):
            if response.status != 206 or not response.headers.get("Content-Range", "").startswith(f"bytes {begin}-"):
                part.empty()
            length = response.headers.get("Content-Length", "")
            total = part.size + int(length) if length.isdecimal() and len(length) < 20 else 0
            while chunk := response.read1(CHUNK):
                if part.size + len(chunk) > file.limit:
                    part.empty()
                    raise UserError(
                        f"{url}: more than the {file.limit:,} bytes that {file.name} can have; "
                        f"nothing was replaced; {by_hand}"
                    )
                part.write(chunk)
                received += len(chunk)
                show(part.size, min(total, file.limit) or file.size, file.name)
            if part.size < total and not ended.is_set():
                raise _Interrupted(f"ended after {part.size:,} of {total:,} bytes")
        if ended.is_set():
            raise _TooSlow(too_slow)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and begin:
            return  # nothing follows the bytes we have
        answer = " ".join(f"answers {error.code} {error.reason}".split())
        if error.code in TRY_AGAIN:
            raise _Interrupted(answer) from None
        raise UserError(f"{url}: {answer}; {by_hand}") from None
    except (http.client.InvalidURL, ValueError) as error:
        raise UserError(f"{url}: not an address, or leads to none: {error}") from None
    except (OSError, http.client.HTTPException) as error:
        if ended.is_set():
            raise _TooSlow(too_slow) from None
        raise _connection_error(url, error, by_hand) from None


def _connection_error(url: str, error: Exception, by_hand: str) -> Exception:
    """What a failed connection becomes: final when the server is untrusted or unreachable, else worth another try."""
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    strerror, number = (reason.strerror, reason.errno) if isinstance(reason, OSError) else (None, None)
    why = strerror or str(reason) or type(reason).__name__
    if isinstance(reason, ssl.SSLCertVerificationError):
        return UserError(f"{url}: its certificate is not trusted: {reason.verify_message}; {by_hand}")
    if isinstance(reason, socket.gaierror | ConnectionRefusedError) or number in OFFLINE:
        return UserError(f"{urlsplit(url).netloc} cannot be reached ({why}); {by_hand}")
    return _Interrupted(why)
