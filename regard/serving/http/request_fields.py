"""A request's fields, however they were sent: in the address, as a form, or as an object in JSON."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import Request

from regard.serving.http.body import is_json, media_type
from regard.serving.http.problem import Problem

logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # else whoever sends a bad form writes to our log

MOST_FIELDS = 1000
DEEPEST = 32
"""Lists and objects inside each other; no contract of ours needs more than three."""
LARGE = 64 * 1024
"""Bytes of a body that takes more than a few milliseconds to parse."""
MOST_VALUES, MOST_FIELDS_AND_LISTS = 120_000, 20_000
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*(?:"|\Z)', re.DOTALL)
_ODD = (re.compile(r"\\u[dD][89a-fA-F]"), re.compile(r"[eE]\+?[0-9]{3}"), re.compile("[0-9]{19}"))
"""Surrogates, large exponents and long numbers. What has none of these needs no closer look, which takes time."""


async def fields_of(request: Request) -> dict[str, Any]:
    """What the body says goes before what the address says. A field that a form or an address has several times is the
    list of its values. Any other body than JSON or a form has no fields."""
    known: dict[str, Any] | None = getattr(request.state, "fields", None)
    if known is None:
        known = request.state.fields = {**query_fields(request.scope["query_string"]), **await _body_fields(request)}
    return known


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
    """Large bodies one by one, with a pause after each that is as long as it took: parsing holds up the event loop."""
    if len(body) <= LARGE:
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
        odd = any(sign.search(text) for sign in _ODD)
        with _no_collection():
            fields = json.loads(text, parse_constant=_refuse, parse_int=_small if odd else None)
        if odd:  # only what can be written again: no half of a surrogate pair, no number beyond what a float can hold
            json.dumps(fields, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        raise Problem(400, "The body is not valid JSON in UTF-8, or has numbers or nesting beyond bounds") from None
    if not isinstance(fields, dict):
        raise Problem(400, "Invalid JSON format")
    if text.count("[") + text.count("{") > DEEPEST and _is_deep(fields):
        raise Problem(400, f"The JSON of the body is nested more than {DEEPEST} deep")
    return fields


def _check_values(body: bytes) -> None:
    """Before it is parsed: a megabyte of small values takes a hundred times as long as a megabyte of text."""
    for signs, most in ((b",", MOST_VALUES), (b"[{:", MOST_FIELDS_AND_LISTS)):
        if _count(body, signs) > most and _count(_STRING.sub(b"", body), signs) > most:
            raise Problem(400, f"The JSON of the body has too many values, fields or lists (more than {most})")


def _count(body: bytes, signs: bytes) -> int:
    return sum(body.count(sign) for sign in signs)


def query_fields(written: bytes) -> dict[str, Any]:
    """Of `a=1&b=2`, as it stands in addresses and forms."""
    try:
        pairs = parse_qsl(written.decode(), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
    except UnicodeDecodeError:
        raise Problem(400, "A field is not valid UTF-8") from None
    except ValueError:
        raise Problem(400, f"More than {MOST_FIELDS} fields") from None
    return _gathered(pairs)


async def _multipart_fields(request: Request, body: bytes) -> dict[str, Any]:
    try:
        body.decode()  # the parser would take any other text for Latin-1
        form = await request.form(max_files=0, max_fields=MOST_FIELDS, max_part_size=len(body))
    except UnicodeDecodeError:
        raise Problem(400, "A field is not valid UTF-8") from None
    except (HTTPException, MultiPartException):
        raise Problem(400, f"The form is malformed, has a file, or more than {MOST_FIELDS} fields") from None
    return _gathered([(name, str(value)) for name, value in form.multi_items()])


def _gathered(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return {name: values if len(values) > 1 else values[0] for name, values in found.items()}


def _is_deep(fields: dict[str, Any]) -> bool:
    level: list[Any] = [fields]
    for _ in range(DEEPEST):
        inside = (one.values() if type(one) is dict else one for one in level)
        level = [child for children in inside for child in children if type(child) in (dict, list)]
        if not level:
            return False
    return True


@contextmanager
def _no_collection() -> Iterator[None]:
    """Looking for garbage among ever more new objects would take most of the time that a large body takes."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _small(digits: str) -> int:
    if len(digits) > 19:
        raise ValueError("beyond 64 bits")
    return int(digits)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
