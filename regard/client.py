"""A running server asked over HTTP: by our own /api or, where it has none, in LibreTranslate's contract.

Imports nothing heavy and knows no model: a command that only asks starts at once.
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

LINES, CHARACTERS = 256, 50_000
"""What one request holds at most: enough to keep every core of a server busy, well below the limits of most."""
TIMEOUT = 150.0
"""Seconds to wait for an answer: a little more than a server takes before it gives up itself."""
TRIES, LONGEST_WAIT = 6, 60.0
"""How often a server that is too busy is asked, and the seconds between two times."""
LARGEST = 1 << 26
"""Bytes of an answer."""
MOST_LISTS, MOST_VALUES = 1_000_000, 8_000_000
"""In an answer: a list of two bytes takes fifty when it is parsed."""
LESS = re.compile("limit|at once|send less")
"""What a server says that would take less: LibreTranslate's words and ours."""
LOOPBACK = re.compile(r"localhost|127\.[0-9.]+|::1")


@dataclass
class Found:
    """A translation as a server tells it; without details only source and text. The fields are Translation's."""

    source: str
    text: str
    score: float = 0.0
    log_probability: float = 0.0
    tokens: list[str] = field(default_factory=list)
    finished: bool = True
    alignment: list[tuple[int, int]] | None = None
    alternatives: list[Found] = field(default_factory=list)


class TooMuch(Exception):
    """The server takes less at once."""


class NoRoute(UserError):
    """The server knows no such path."""


class Client:
    """One server, one connection that is kept. `say` is told why it takes longer than usual."""

    def __init__(
        self, url: str, key: str = "", timeout: float = TIMEOUT, say: Callable[[str], None] = lambda line: None
    ):
        self._url, self._key, self._timeout, self._say = _parsed(url), key, timeout, say
        if not re.fullmatch(r"[\x21-\x7e]*", key):
            raise UserError("REGARD_API_KEY: a key is one word of plain ASCII letters, digits and signs")
        self._prefix = self._url.path.rstrip("/")
        self._most, self._ours = LINES, True
        self._connection: http.client.HTTPConnection | None = None

    @property
    def address(self) -> str:
        return f"{self._url.scheme}://{self._url.netloc}{self._prefix}"

    def translate(
        self, texts: Sequence[str], source: str, target: str, progress: Callable[[int], None] = lambda lines: None
    ) -> list[Found]:
        """One for each text, in order; what is empty is not sent.

        A server of ours says what the model would say here. One that is not, or is to find out the language (`auto`),
        is asked as LibreTranslate is.
        """

        def ask(part: list[str]) -> list[Found]:
            if self._ours and source != "auto":
                try:
                    return self._ask_ours(part, source, target, {})
                except NoRoute:
                    self._ours = False
            tree = {"q": part, "source": source, "target": target, "format": "text"}
            answer = self._ask("/translate", tree | ({"api_key": self._key} if self._key else {}))
            return [Found(text, found) for text, found in zip(part, _texts(_listed(answer, "translatedText", part)))]

        return self._in_parts(texts, ask, progress)

    def translate_in_detail(
        self,
        texts: Sequence[str],
        source: str,
        target: str,
        progress: Callable[[int], None] = lambda lines: None,
        **search: Any,
    ) -> list[Found]:
        """With scores, tokens and what else `search` asks for. Only a server of ours can."""
        if source == "auto":
            raise UserError("scores, alignments and other details need the language; give --from, such as --from fr")
        return self._in_parts(texts, lambda part: self._ask_ours(part, source, target, search), progress)

    def _ask_ours(self, part: list[str], source: str, target: str, search: dict[str, Any]) -> list[Found]:
        tree = {"model": {"source": source, "target": target}, "text": part, **search}
        answer = self._ask("/api/translate", tree)
        return [_found(text, tree) for text, tree in zip(part, _listed(answer, "answers", part))]

    def close(self) -> None:
        if self._connection:
            self._connection.close()
            self._connection = None

    def _in_parts(
        self, texts: Sequence[str], ask: Callable[[list[str]], list[Found]], progress: Callable[[int], None]
    ) -> list[Found]:
        found = [Found(text, "") for text in texts]
        wanted = [place for place, text in enumerate(texts) if text.strip()]
        progress(len(texts) - len(wanted))
        while wanted:
            part = wanted[: _that_fit((texts[place] for place in wanted), self._most)]
            try:
                answers = ask([texts[place] for place in part])
            except TooMuch as error:
                if len(part) == 1:
                    raise UserError(f"{self.address} refuses a line that is too long for it: {error}") from None
                self._most = -(-len(part) // 2)
                continue
            for place, answer in zip(part, answers, strict=True):
                found[place] = answer
            del wanted[: len(part)]
            progress(len(part))
        return found

    def _ask(self, path: str, tree: dict[str, Any]) -> Any:
        """What the server answers. Where it is busy and says when to come back, that is done a few times."""
        body = json.dumps(tree).encode()
        for attempt in range(1, TRIES + 1):
            status, retry_after, answer = self._exchange(path, body)
            if status not in (429, 503) or attempt == TRIES:
                break
            wait = min(float(retry_after), LONGEST_WAIT) if retry_after.isdecimal() else float(2 ** (attempt - 1))
            if attempt == 2:  # once may happen to anybody
                self._say(f"{self.address} is busy; waiting for it")
            time.sleep(wait)
        tree = _parsed_answer(answer)
        if status == 200:
            return tree
        said = str(tree.get("error", "")) if isinstance(tree, dict) else ""
        if status in (413, 504) or (status == 400 and LESS.search(said)):
            raise TooMuch(said or f"status {status}")
        if status in (404, 405) and not said.startswith("no model"):
            raise NoRoute(f"{self.address} has no {path}: it is another kind of server, or its address lacks a prefix")
        raise UserError(self._refusal(status, said[:300]))

    def _refusal(self, status: int, said: str) -> str:
        where = self.address
        if status in (401, 403) or (status == 400 and "API key" in said):
            return f"{where} wants a valid key: {said or 'none was given'}; put it into REGARD_API_KEY"
        if 300 <= status < 400:
            return f"{where} has moved; give its new address (does it begin with https?)"
        return f"{where} refuses: {said or f'status {status}'}"

    def _exchange(self, path: str, body: bytes) -> tuple[int, str, bytes]:
        """Status, Retry-After and body. Over a connection that was kept and may be closed by now, it is tried twice."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        kept, late = self._connection is not None, None
        try:
            connection, place = self._connected()
            if connection.sock is None:
                connection.connect()
            peer = connection.sock
            with watchdog(lambda: peer, self._timeout) as late:
                connection.request("POST", f"{place}{path}", body, headers)
                response = connection.getresponse()
                answer = response.read(LARGEST + 1)
            if late.is_set():  # what was read so far may be all, or look like it
                raise TimeoutError
        except (OSError, http.client.HTTPException) as error:
            self.close()
            if late and late.is_set():
                raise UserError(self._unreachable(TimeoutError())) from None
            if kept and isinstance(error, (ConnectionError, http.client.HTTPException)):
                return self._exchange(path, body)
            raise UserError(self._unreachable(error)) from None
        if len(answer) > LARGEST:
            raise UserError(f"{self.address} answers more than {LARGEST >> 20} MiB; is it a translation server?")
        if response.will_close:
            self.close()
        return response.status, response.headers.get("Retry-After", ""), answer

    def _connected(self) -> tuple[http.client.HTTPConnection, str]:
        """The connection, and what a path must begin with there."""
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
            return f"no server listens at {where}; start one with: regard serve"
        if isinstance(error, ConnectionError):
            return f"{where} ended the connection before it answered; what does the server's log say?"
        if isinstance(error, http.client.HTTPException):
            return f"{where} does not speak HTTP as it should ({type(error).__name__}); is it https?"
        reason = getattr(error, "strerror", None) or str(error)
        return f"{where} cannot be reached: {reason}"


def _parsed(url: str) -> SplitResult:
    wrong = UserError(f"--server: '{url}' is no address of a server; write it like http://127.0.0.1:5000")
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        sound = bool(parts.hostname) and parts.port != 0 and parts.scheme in ("http", "https")
    except ValueError:
        raise wrong from None
    if not sound or parts.username is not None or parts.query or parts.fragment:
        raise wrong
    if not re.fullmatch(r"[\x21-\x7e]+", url):
        raise wrong
    return parts


def _proxy(url: SplitResult) -> SplitResult | None:
    """What the environment says (HTTP_PROXY, HTTPS_PROXY, NO_PROXY)."""
    from urllib.request import getproxies, proxy_bypass

    found = getproxies().get(url.scheme)
    if not found or proxy_bypass(url.hostname or ""):
        return None
    return urlsplit(found if "://" in found else f"http://{found}")


def _that_fit(texts: Iterator[str], most: int) -> int:
    """How many of the next texts one request holds: one at least."""
    count = characters = 0
    for text in texts:
        characters += len(text)
        if count and (count == most or characters > CHARACTERS):
            break
        count += 1
    return count


def _listed(answer: Any, name: str, part: list[str]) -> list[Any]:
    found = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(found, list) or len(found) != len(part):
        raise UserError(f"the server was asked for {len(part)} translations and answered something else")
    return found


def _texts(found: list[Any]) -> list[str]:
    if not all(isinstance(text, str) for text in found):
        raise UserError("the server was asked for translations and answered something that is no text")
    return found


def _parsed_answer(answer: bytes) -> Any:
    """What the JSON in an answer says; {} where there is none, or more than an answer can need."""
    if answer.count(b"[") + answer.count(b"{") > MOST_LISTS or answer.count(b",") > MOST_VALUES:
        return {}
    try:
        return json.loads(answer)
    except (ValueError, RecursionError):
        return {}


def _found(source: str, tree: Any) -> Found:
    try:
        links = tree.get("alignment")
        return Found(
            source,
            _texts([tree["text"]])[0],
            float(tree["score"]),
            float(tree["log_probability"]),
            _texts(list(tree["tokens"])),
            bool(tree["finished"]),
            None if links is None else [(int(a), int(b)) for a, b in links],
            [_found(source, other) for other in tree.get("alternatives") or []],
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        raise UserError("the server's answer lacks what was asked for; is it as new as this program?") from None
