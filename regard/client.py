"""An HTTP client for translation servers: our own /api or, if the server has none, LibreTranslate's API.

It imports nothing heavy, so that commands which only call a server start at once.
"""

from __future__ import annotations

import http.client
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, urlsplit

from regard.errors import UserError
from regard.watchdog import watchdog

MAX_LINES, MAX_CHARACTERS = 256, 50_000
"""Per request: enough to keep all cores of a server busy, and well below the limits of most servers."""
TIMEOUT = 150.0
"""Seconds to wait for a response: slightly longer than the server's own timeout."""
MAX_TRIES, MAX_WAIT = 6, 60.0
"""Requests to a busy server, and most seconds between two of them."""
MAX_RESPONSE_BYTES = 1 << 26
MAX_CONTAINERS, MAX_VALUES = 1_000_000, 8_000_000
"""In the JSON of a response: a list of two bytes takes fifty in memory."""
TOO_LARGE_MESSAGE = re.compile("limit|at once|send less")
"""Errors after which a smaller request may succeed, in LibreTranslate's words and ours."""
LOOPBACK = re.compile(r"localhost|127\.[0-9.]+|::1")


@dataclass
class ServerTranslation:
    """A translation from a server, with the fields of `Translation`; without details, only source and text."""

    source: str
    text: str
    score: float = 0.0
    log_probability: float = 0.0
    tokens: list[str] = field(default_factory=list)
    finished: bool = True
    alignment: list[tuple[int, int]] | None = None
    alternatives: list[ServerTranslation] = field(default_factory=list)


class RequestTooLarge(Exception):
    """The server accepts only smaller requests."""


class UnknownRoute(UserError):
    """The server does not have this route."""


class Client:
    """A client with one persistent connection. `note` gets a message when the server is busy."""

    def __init__(
        self, url: str, key: str = "", timeout: float = TIMEOUT, note: Callable[[str], None] = lambda line: None
    ):
        self._url, self._key, self._timeout, self._note = _parsed(url), key, timeout, note
        if not re.fullmatch(r"[\x21-\x7e]*", key):
            raise UserError("REGARD_API_KEY: a key consists of printable ASCII characters without spaces")
        self._prefix = self._url.path.rstrip("/")
        self._max_lines, self._has_api = MAX_LINES, True
        self._connection: http.client.HTTPConnection | None = None

    @property
    def address(self) -> str:
        return f"{self._url.scheme}://{self._url.netloc}{self._prefix}"

    def translate(
        self, texts: Sequence[str], source: str, target: str, progress: Callable[[int], None] = lambda lines: None
    ) -> list[ServerTranslation]:
        """One translation per text, in order; empty texts are not sent.

        Our own server returns exactly what the model returns locally. Other servers, and language detection (`auto`),
        go through LibreTranslate's API.
        """

        def request(part: list[str]) -> list[ServerTranslation]:
            if self._has_api and source != "auto":
                try:
                    return self._request_api(part, source, target, {})
                except UnknownRoute:
                    self._has_api = False
            tree = {"q": part, "source": source, "target": target, "format": "text"}
            answer = self._post("/translate", tree | ({"api_key": self._key} if self._key else {}))
            return [
                ServerTranslation(text, found)
                for text, found in zip(part, _texts(_listed(answer, "translatedText", part)))
            ]

        return self._in_parts(texts, request, progress)

    def translate_in_detail(
        self,
        texts: Sequence[str],
        source: str,
        target: str,
        progress: Callable[[int], None] = lambda lines: None,
        **search: Any,
    ) -> list[ServerTranslation]:
        """Translations with scores, tokens and the options in `search`; needs our own server."""
        if source == "auto":
            raise UserError(
                "scores, alignments, glossaries and other details need the language; give --from, such as --from fr"
            )
        return self._in_parts(texts, lambda part: self._request_api(part, source, target, search), progress)

    def _request_api(
        self, part: list[str], source: str, target: str, search: dict[str, Any]
    ) -> list[ServerTranslation]:
        tree = {"model": {"source": source, "target": target}, "text": part, **search}
        answer = self._post("/api/translate", tree)
        return [_translation(text, tree) for text, tree in zip(part, _listed(answer, "answers", part))]

    def close(self) -> None:
        if self._connection:
            self._connection.close()
            self._connection = None

    def _in_parts(
        self,
        texts: Sequence[str],
        request: Callable[[list[str]], list[ServerTranslation]],
        progress: Callable[[int], None],
    ) -> list[ServerTranslation]:
        found = [ServerTranslation(text, "") for text in texts]
        pending = [index for index, text in enumerate(texts) if text.strip()]
        progress(len(texts) - len(pending))
        while pending:
            part = pending[: _count_that_fit((texts[index] for index in pending), self._max_lines)]
            try:
                answers = request([texts[index] for index in part])
            except RequestTooLarge as error:
                if len(part) == 1:
                    raise UserError(f"{self.address} refuses a line that is too long: {error}") from None
                self._max_lines = -(-len(part) // 2)
                continue
            for index, answer in zip(part, answers, strict=True):
                found[index] = answer
            del pending[: len(part)]
            progress(len(part))
        return found

    def _post(self, path: str, tree: dict[str, Any]) -> Any:
        """The JSON of the response. A busy server is retried a few times, after the time it asks for."""
        body = json.dumps(tree).encode()
        for attempt in range(1, MAX_TRIES + 1):
            status, retry_after, answer = self._exchange(path, body)
            if status not in (429, 503) or attempt == MAX_TRIES:
                break
            wait = min(float(retry_after), MAX_WAIT) if retry_after.isdecimal() else float(2 ** (attempt - 1))
            if attempt == 2:  # a single 503 is normal
                self._note(f"{self.address} is busy; waiting for it")
            time.sleep(wait)
        tree = _parsed_answer(answer)
        if status == 200:
            return tree
        message = str(tree.get("error", "")) if isinstance(tree, dict) else ""
        if status in (413, 504) or (status == 400 and TOO_LARGE_MESSAGE.search(message)):
            raise RequestTooLarge(message or f"status {status}")
        if status in (404, 405) and not message.startswith("no model"):
            raise UnknownRoute(f"{self.address} has no {path}: it is another kind of server, or the URL lacks a prefix")
        raise UserError(self._error(status, message[:300]))

    def _error(self, status: int, message: str) -> str:
        where = self.address
        if status in (401, 403) or (status == 400 and "API key" in message):
            return f"{where} requires a valid API key: {message or 'none was given'}; set REGARD_API_KEY"
        if 300 <= status < 400:
            return f"{where} has moved; give its new address (does it begin with https?)"
        return f"{where} refuses: {message or f'status {status}'}"

    def _exchange(self, path: str, body: bytes) -> tuple[int, str, bytes]:
        """Status, Retry-After and body. If a persistent connection was closed meanwhile, it retries once."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        reused, late = self._connection is not None, None
        try:
            connection, prefix = self._connected()
            if connection.sock is None:
                connection.connect()
            peer = connection.sock
            with watchdog(lambda: peer, self._timeout) as late:
                connection.request("POST", f"{prefix}{path}", body, headers)
                response = connection.getresponse()
                answer = response.read(MAX_RESPONSE_BYTES + 1)
            if late.is_set():  # the response may be incomplete although it looks complete
                raise TimeoutError
        except (OSError, http.client.HTTPException) as error:
            self.close()
            if late and late.is_set():
                raise UserError(self._unreachable(TimeoutError())) from None
            if reused and isinstance(error, (ConnectionError, http.client.HTTPException)):
                return self._exchange(path, body)
            raise UserError(self._unreachable(error)) from None
        if len(answer) > MAX_RESPONSE_BYTES:
            raise UserError(
                f"{self.address} sent more than {MAX_RESPONSE_BYTES >> 20} MiB; is it a translation server?"
            )
        if response.will_close:
            self.close()
        return response.status, response.headers.get("Retry-After", ""), answer

    def _connected(self) -> tuple[http.client.HTTPConnection, str]:
        """The connection, and the prefix of paths on it."""
        host, port = self._url.hostname or "", self._url.port
        secure = self._url.scheme == "https"
        make = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        proxy = None if LOOPBACK.fullmatch(host) else _proxy(self._url)
        if self._connection is None:
            if proxy is None:
                self._connection = make(host, port, timeout=self._timeout)
            else:
                self._connection = make(proxy.hostname or "", proxy.port, timeout=self._timeout)
                if secure:
                    self._connection.set_tunnel(host, port)
        return self._connection, self._prefix if proxy is None or secure else self.address

    def _unreachable(self, error: Exception) -> str:
        where = self.address
        if isinstance(error, TimeoutError):
            return f"{where} did not answer within {self._timeout:g} s; is it overloaded?"
        if isinstance(error, ConnectionRefusedError):
            return f"no server is listening at {where}; start one with: regard serve"
        if isinstance(error, ConnectionError):
            return f"{where} closed the connection without a response; see the server's log"
        if isinstance(error, http.client.HTTPException):
            return f"{where} sent a malformed HTTP response ({type(error).__name__}); is it https?"
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        return f"{where} cannot be reached: {reason}"


def _parsed(url: str) -> SplitResult:
    wrong = UserError(f"--server: '{url}' is not the URL of a server; write it like http://127.0.0.1:5000")
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        valid = bool(parts.hostname) and parts.port != 0 and parts.scheme in ("http", "https")
    except ValueError:
        raise wrong from None
    if not valid or parts.username is not None or parts.query or parts.fragment:
        raise wrong
    if not re.fullmatch(r"[\x21-\x7e]+", url):
        raise wrong
    return parts


def _proxy(url: SplitResult) -> SplitResult | None:
    """The proxy from the environment (HTTP_PROXY, HTTPS_PROXY, NO_PROXY)."""
    from urllib.request import getproxies, proxy_bypass

    found = getproxies().get(url.scheme)
    if not found or proxy_bypass(url.hostname or ""):
        return None
    return urlsplit(found if "://" in found else f"http://{found}")


def _count_that_fit(texts: Iterator[str], max_lines: int) -> int:
    """How many of the next texts fit into one request; at least one."""
    count = characters = 0
    for text in texts:
        characters += len(text)
        if count and (count == max_lines or characters > MAX_CHARACTERS):
            break
        count += 1
    return count


def _listed(answer: Any, name: str, part: list[str]) -> list[Any]:
    found = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(found, list) or len(found) != len(part):
        raise UserError(f"the server did not return one translation per text ({len(part)} expected)")
    return found


def _texts(found: list[Any]) -> list[str]:
    if not all(isinstance(text, str) for text in found):
        raise UserError("the server returned a translation that is not text")
    return found


def _parsed_answer(answer: bytes) -> Any:
    """The parsed JSON of a response; {} if it is invalid or larger than any response should be."""
    if answer.count(b"[") + answer.count(b"{") > MAX_CONTAINERS or answer.count(b",") > MAX_VALUES:
        return {}
    try:
        return json.loads(answer)
    except (ValueError, RecursionError):
        return {}


def _translation(source: str, tree: Any) -> ServerTranslation:
    try:
        links = tree.get("alignment")
        return ServerTranslation(
            source,
            _texts([tree["text"]])[0],
            float(tree["score"]),
            float(tree["log_probability"]),
            _texts(list(tree["tokens"])),
            bool(tree["finished"]),
            None if links is None else [(int(a), int(b)) for a, b in links],
            [_translation(source, other) for other in tree.get("alternatives") or []],
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        raise UserError("the server's response is incomplete; is it an older version?") from None
