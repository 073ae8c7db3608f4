"""A request's fields, from the query string, a form or a JSON object."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import re
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from regard.serving.http.http_error import HttpError
from regard.serving.http.request_body import UPLOAD_PATHS, is_json, media_type
from regard.serving.http.routing import path_of

logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # else malformed forms fill our log

MAX_FIELDS = 1000
MAX_DEPTH = 32
"""Nesting of JSON; none of our APIs needs more than three."""
LARGE_BODY = 64 * 1024
"""Bytes above which parsing takes more than a few milliseconds."""
MAX_VALUES, MAX_CONTAINERS = 120_000, 20_000
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*(?:"|\Z)', re.DOTALL)
_SUSPICIOUS = (re.compile(r"\\u[dD][89a-fA-F]"), re.compile(r"[eE]\+?[0-9]{3}"), re.compile("[0-9]{19}"))
"""Surrogates, large exponents and long numbers. A body without any needs no (slow) closer check."""


async def fields_of(request: Request) -> dict[str, Any]:
    """The fields of the body and the query string; the body takes precedence. A field that a form or query repeats is
    the list of its values. A body that is neither JSON nor a form has no fields."""
    state = request.scope["state"]
    if "fields" not in state:
        state["fields"] = {**query_fields(request.scope["query_string"]), **await _body_fields(request)}
    return state["fields"]


async def _body_fields(request: Request) -> dict[str, Any]:
    kind, body = media_type(request.headers), await request.body()
    if is_json(kind):
        return await _parsed(request, body, json_fields)
    if kind == "application/x-www-form-urlencoded":
        return await _parsed(request, body, query_fields)
    if kind == "multipart/form-data" and body:
        return await _multipart_fields(request, body)
    return {}


async def _parsed(request: Request, body: bytes, parse: Callable[[bytes], dict[str, Any]]) -> dict[str, Any]:
    """Parses large bodies one by one, each followed by an equally long pause, since parsing blocks the event loop."""
    if len(body) <= LARGE_BODY:
        return parse(body)
    async with request.app.state.parsing:
        start = time.perf_counter()
        try:
            return parse(body)
        finally:
            await asyncio.sleep(time.perf_counter() - start)


def json_fields(body: bytes) -> dict[str, Any]:
    _check_values(body)
    try:
        text = body.decode("utf-8-sig")
        suspicious = any(pattern.search(text) for pattern in _SUSPICIOUS)
        with _without_gc():
            fields = json.loads(text, parse_constant=_reject_constant, parse_int=_bounded_int if suspicious else None)
        if suspicious:  # must survive serialization: no lone surrogates, no number beyond a float's range
            json.dumps(fields, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        raise HttpError(400, "The body is not valid JSON in UTF-8, or has numbers or nesting beyond bounds") from None
    if not isinstance(fields, dict):
        raise HttpError(400, "Invalid JSON format")
    if text.count("[") + text.count("{") > MAX_DEPTH and _is_too_deep(fields):
        raise HttpError(400, f"The JSON of the body is nested more than {MAX_DEPTH} deep")
    return fields


def _check_values(body: bytes) -> None:
    """Counts values before parsing: a megabyte of small values takes a hundred times as long as a megabyte of text."""
    for characters, limit in ((b",", MAX_VALUES), (b"[{:", MAX_CONTAINERS)):
        if _count(body, characters) > limit and _count(_STRING.sub(b"", body), characters) > limit:
            raise HttpError(400, f"The JSON of the body has too many values, fields or lists (more than {limit})")


def _count(body: bytes, characters: bytes) -> int:
    return sum(body.count(character) for character in characters)


def query_fields(encoded: bytes) -> dict[str, Any]:
    """The fields of `a=1&b=2`, the format of query strings and forms."""
    try:
        pairs = parse_qsl(encoded.decode(), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
    except UnicodeDecodeError:
        raise HttpError(400, "A field is not valid UTF-8") from None
    except ValueError:
        raise HttpError(400, f"More than {MAX_FIELDS} fields") from None
    return _grouped(pairs)


class Upload(NamedTuple):
    """A file in a form."""

    name: str
    content: bytes


class _InMemoryParser(MultiPartParser):
    """Writes no file to disk: bodies are bounded, and in memory anyway."""

    spool_max_size = 1 << 40


async def upload_of(request: Request) -> Upload | None:
    """The file of a form on one of UPLOAD_PATHS."""
    await fields_of(request)
    found: Upload | None = request.scope["state"].get("upload")
    return found


async def _multipart_fields(request: Request, body: bytes) -> dict[str, Any]:
    files = int(path_of(request.scope) in UPLOAD_PATHS)
    try:
        if not files:
            body.decode()  # the parser would decode anything else as Latin-1
        limits = {"max_files": files, "max_fields": MAX_FIELDS, "max_part_size": len(body)}
        form = await _InMemoryParser(request.headers, _in_turns(body), **limits).parse()
    except UnicodeDecodeError:
        raise HttpError(400, "A field is not valid UTF-8") from None
    except (HTTPException, MultiPartException, KeyError):
        what = "has more than one file" if files else "has a file"
        raise HttpError(400, f"The form is malformed, {what}, or more than {MAX_FIELDS} fields") from None
    fields: list[tuple[str, str]] = []
    for name, value in form.multi_items():
        if isinstance(value, UploadFile):
            request.scope["state"]["upload"] = Upload(value.filename or "", await value.read())
        else:
            fields.append((name, value))
    return _grouped(fields)


async def _in_turns(body: bytes) -> AsyncGenerator[bytes, None]:
    """A body in pieces, between which others get a turn."""
    for start in range(0, len(body), LARGE_BODY):
        yield body[start : start + LARGE_BODY]
        await asyncio.sleep(0)


def _grouped(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return {name: values if len(values) > 1 else values[0] for name, values in found.items()}


def _is_too_deep(fields: dict[str, Any]) -> bool:
    level: list[Any] = [fields]
    for _ in range(MAX_DEPTH):
        inside = (one.values() if type(one) is dict else one for one in level)
        level = [child for children in inside for child in children if type(child) in (dict, list)]
        if not level:
            return False
    return True


@contextmanager
def _without_gc() -> Iterator[None]:
    """Disables garbage collection, which would dominate the time to parse a large body."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _bounded_int(digits: str) -> int:
    if len(digits) > 19:
        raise ValueError("beyond 64 bits")
    return int(digits)


def _reject_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
