"""Documents that the server translates, and their translations until they are fetched.

All of it is in memory, bounded, and forgotten after a while: no file is written, so nothing can be left on a disk.
Reading and writing documents takes a thread of its own; the event loop only waits for it.
"""

from __future__ import annotations

import asyncio
import hmac
import math
import secrets
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import PurePath
from urllib.parse import quote

from starlette.responses import Response

from regard.documents.document import Document
from regard.documents.formats import FORMATS, read_document, suffix_of, written_as
from regard.errors import UserError
from regard.serving.http.error_responses import log_error
from regard.serving.http.http_error import HttpError
from regard.serving.http.request_fields import Upload
from regard.serving.settings import MEBIBYTE, Settings
from regard.serving.text.translator import TextTranslator, TranslationRequest, UnsupportedLanguage
from regard.serving.workers.errors import JobFailed, JobRefused

TABLES = (".csv", ".tsv")
"""Formats that need the names of columns, for which only our own field has a place."""
READABLE = [suffix for suffix in FORMATS if suffix != ".pdf" or find_spec("pypdf")]
FILE_FORMATS = [suffix for suffix in READABLE if suffix not in TABLES]
"""Endings of names of documents that any client of the contracts may send."""
MAX_DOCUMENTS = 100
MAX_MEMORY = 256 * MEBIBYTE
"""All documents and translations that are held."""
AT_ONCE = 2
"""Documents that are translated at a time; further ones wait."""
KEPT_SECONDS = 1800.0
"""How long a translation waits to be fetched."""
MAX_NAME = 120


@dataclass
class HeldDocument:
    """A document in work, or its translation."""

    name: str
    """Of the translation."""
    owner: str
    """Of the API key that sent it; nobody else may ask for it."""
    size: int
    """Bytes that it counts for."""
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    key: str = field(default_factory=lambda: secrets.token_hex(32))
    since: float = field(default_factory=time.monotonic)
    status: str = "queued"
    """queued, translating, done or error, as DeepL says."""
    done: int = 0
    sentences: int = 0
    began: float = 0.0
    characters: int = 0
    error: str = ""
    error_status: int = 0
    content: bytes = b""
    """The translation."""
    work: asyncio.Task[None] | None = None

    linked: bool = False
    """Whether whoever knows its id may fetch it: its translation is given out as a link."""

    def fail(self, error: str, status: int) -> None:
        self.status, self.error, self.error_status, self.since, self.size = "error", error, status, time.monotonic(), 0

    @property
    def seconds_remaining(self) -> int:
        spent = time.monotonic() - self.began if self.began else 0.0
        return math.ceil(spent * (self.sentences - self.done) / self.done) if self.done else 1


class Documents:
    """The documents of a server."""

    def __init__(self, settings: Settings, translator: TextTranslator):
        self.settings, self.translator = settings, translator
        self._held: dict[str, HeldDocument] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._thread = ThreadPoolExecutor(1, "documents")

    @property
    def enabled(self) -> bool:
        return self.settings.document_limit != 0

    def start(
        self,
        upload: Upload,
        source: str,
        target: str,
        owner: str,
        count: Callable[[int], None] = lambda characters: None,
        columns: Sequence[str] | None = None,
    ) -> HeldDocument:
        """Begins to translate a document. `count` is told its characters, once it is known to be translated. `columns`
        are those of a table to translate; None where the contract has no place for them."""
        name, content = _plain(upload.name), upload.content
        formats = FILE_FORMATS if columns is None else READABLE
        if suffix_of(name) not in formats:
            raise HttpError(400, f"Documents of this kind cannot be translated, only {' '.join(formats)}")
        self.translator.check_languages(source, target)
        self._forget_old()
        if len(self._held) >= MAX_DOCUMENTS or self._memory() + 2 * len(content) > MAX_MEMORY:
            raise HttpError(503, "The server has too many documents at present", {"Retry-After": "30"})
        suffix = written_as(name)[0]
        held = HeldDocument(name.removesuffix(suffix_of(name)) + suffix, owner, 2 * len(content))
        self._held[held.id] = held
        read = partial(read_document, content, name, tuple(columns or ()), suffix)
        held.work = asyncio.create_task(self._translate(held, read, source, target, count))
        return held

    def find(self, id: str, owner: str, key: str) -> HeldDocument:
        """Raises 404 for one that does not exist, and for somebody else's."""
        self._forget_old()
        held = self._held.get(id)
        if held and held.owner == owner and hmac.compare_digest(held.key.encode(), key.encode("utf-8", "replace")):
            return held
        raise HttpError(404, "No such document; a translation is kept for half an hour, and given out once")

    def linked(self, id: str) -> HeldDocument:
        """One whose translation is given out as a link."""
        self._forget_old()
        held = self._held.get(id)
        if held and held.linked and held.status == "done":
            return held
        raise HttpError(404, "No such file; a translation is kept for half an hour")

    def take(self, held: HeldDocument) -> bytes:
        """The translation, which is forgotten."""
        self.drop(held)
        return held.content

    def drop(self, held: HeldDocument) -> None:
        self._held.pop(held.id, None)
        if held.work:
            held.work.cancel()

    def _memory(self) -> int:
        return sum(held.size for held in self._held.values())

    def _forget_old(self) -> None:
        """Those in work are never old: their time is bounded by what they have to say."""
        before = time.monotonic() - KEPT_SECONDS
        for held in [one for one in self._held.values() if one.status in ("done", "error") and one.since < before]:
            self.drop(held)

    async def _translate(
        self, held: HeldDocument, read: Callable[[], Document], source: str, target: str, count: Callable[[int], None]
    ) -> None:
        try:
            async with self._slots:
                await self._translate_now(held, read, source, target, count)
            held.status, held.since = "done", time.monotonic()
        except (UserError, UnsupportedLanguage, JobRefused) as error:
            held.fail(str(error), 400)
        except JobFailed as error:
            held.fail(str(error), 503)
        except Exception as error:
            log_error(held.id[:8], error)
            held.fail(f"Internal error; see the server's log under {held.id[:8]}", 500)

    async def _translate_now(
        self, held: HeldDocument, read: Callable[[], Document], source: str, target: str, count: Callable[[int], None]
    ) -> None:
        held.status, held.began = "translating", time.monotonic()
        loop = asyncio.get_running_loop()
        document = await loop.run_in_executor(self._thread, read)
        held.characters = sum(map(len, document.texts))
        if 0 <= self.settings.document_limit < held.characters:
            limit = self.settings.document_limit
            raise UserError(f"the document has {held.characters:,} characters; this server takes {limit:,}")
        count(held.characters)

        def progress(done: int, sentences: int) -> None:
            held.done, held.sentences = done, sentences

        request = TranslationRequest(document.texts, source, target, html=document.html, owner=held.owner)
        found = await self.translator.translate_document(document, request, progress)
        held.content = await loop.run_in_executor(self._thread, document.write, found.texts)
        held.size = len(held.content)


async def finished(held: HeldDocument) -> None:
    """Waits for a document. If whoever waits is cancelled, so is the work."""
    assert held.work
    try:
        await held.work
    finally:
        held.work.cancel()


def file_response(held: HeldDocument, content: bytes) -> Response:
    """The file as a download, whatever is in it: a browser must not show it as a page of this server."""
    disposition = f"attachment; filename*=UTF-8''{quote(held.name)}"
    return Response(content, media_type="application/octet-stream", headers={"Content-Disposition": disposition})


def _plain(name: str) -> str:
    """The name without folders and with nothing that could steer a terminal or a header."""
    plain = PurePath(name.replace("\\", "/")).name
    plain = "".join(character for character in plain if character.isprintable() and character not in '"%;/')
    suffix = suffix_of(plain)
    return (plain[: -len(suffix)] if suffix else plain)[:MAX_NAME] + suffix  # in lower case
