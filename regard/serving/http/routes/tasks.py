"""Our own contract, /api: every task, with all that its models can say. The routes are the files of answering/."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, ValidationError

from regard.errors import UserError
from regard.languages import internal, public
from regard.serving.catalogue import Catalogue, Served
from regard.serving.http.body import is_text, media_type
from regard.serving.http.problem import Problem
from regard.serving.http.request_fields import fields_of, query_fields
from regard.serving.http.routes.openapi import Schema, answer, listed, refusals, text, tree
from regard.serving.settings import Settings
from regard.serving.workers.tasks import module_of, task_names, translate
from regard.serving.workers.tasks._request import Asked, AskedOfFile, example_of
from regard.serving.workers.worker_pool import Busy, Failed, Refused, Search

if TYPE_CHECKING:
    from regard.serving.workers.worker_pool import Engine

FILES = ("image/", "audio/", "application/octet-stream")
"""How the Content-Type of a file begins."""


def router(settings: Settings, catalogue: Catalogue, engine: Engine) -> APIRouter:
    routes = APIRouter(prefix="/api", tags=["All tasks"])
    languages = {name: text("Of a model that translates, a language's code.") for name in ("source", "target")}
    served = tree({"name": text("What requests call it."), "task": text("The route it answers."), **languages})
    shown = {"models": [{"name": "fr-en", "task": "translate", "source": "fr", "target": "en"}]}
    told = answer("By name.", tree({"models": listed(served)}), shown)

    @routes.get("/models", summary="The models of this server", responses={200: told, **refusals(403, 429)})
    async def models() -> JSONResponse:
        return JSONResponse({"models": [_shown(model) for model in catalogue.models.values()]})

    for task in task_names():
        module = module_of(task)
        routes.add_api_route(
            f"/{task}",
            _route(task, module, settings, catalogue, engine),
            methods=["POST"],
            name=task,
            summary=(module.__doc__ or task).partition("\n")[0],
            description=" ".join((vars(module.Request).get("__doc__") or "").split()),
            responses=_answers(module),
            openapi_extra=_asking(module),
        )
    return routes


def _shown(model: Served) -> dict[str, str]:
    languages = {"source": public(model.source), "target": public(model.target)} if model.source else {}
    return {"name": model.name, "task": model.task, **languages}


def _route(
    task: str, module: ModuleType, settings: Settings, catalogue: Catalogue, engine: Engine
) -> Callable[[Request], Awaitable[Response]]:
    async def route(request: Request) -> Response:
        asked = await _asked(request, module)
        check_limits(settings, asked)
        model = find(catalogue, task, asked)
        if isinstance(asked, translate.Request):
            return _json(model, await _translated(engine, model, asked, request.state.owner))
        fields = asked.model_dump(exclude={"model"}, exclude_none=True)
        if getattr(asked, "stream", False):
            return await _streamed(model, engine.stream(model.name, task, fields))
        return _json(model, await engine.ask(model.name, task, fields))

    return route


# What is asked.


def _forms(module: ModuleType) -> list[type[Asked]]:
    return [form for name in ("Request", "FileRequest") if (form := getattr(module, name, None))]


async def _asked(request: Request, module: ModuleType) -> Asked:
    """The request as one of the forms that the task has: fields, or a file with options in the address."""
    kind = media_type(request.headers)
    for form in _forms(module):
        if issubclass(form, AskedOfFile) and kind.startswith(FILES):
            if not (body := await request.body()):
                raise Problem(400, "The body is empty; send the file itself as the body")
            query = query_fields(request.scope["query_string"])
            return checked(form, {**query, "content": base64.b64encode(body).decode()})
        if not issubclass(form, AskedOfFile) and is_text(request.headers):
            return checked(form, await fields_of(request))
    wanted = [media for form in _forms(module) for media in _media(form)]
    raise Problem(415, f"The body cannot be read as what its Content-Type says; send one of {', '.join(wanted)}")


def _media(form: type[Asked]) -> tuple[str, ...]:
    return (*form.media, "application/octet-stream") if issubclass(form, AskedOfFile) else ("application/json",)


def checked(form: type[Asked], fields: dict[str, Any]) -> Asked:
    """Refuses, in one line, what the form does not allow."""
    try:
        return form.model_validate({name: value for name, value in fields.items() if name != "api_key"})
    except ValidationError as error:
        found = max(error.errors(include_url=False, include_context=False, include_input=False), key=_telling)
        where = ".".join(str(part) for place, part in enumerate(found["loc"]) if not place or isinstance(part, int))
        said = "has characters that no name has" if found["type"] == "string_pattern_mismatch" else found["msg"]
        raise Problem(400, f"{where}: {said[:1].lower()}{said[1:]}") from None


def _telling(error: Any) -> tuple[int, bool]:
    """Of a value that may be one of several things, which mistake was made in the thing that was meant: the deepest,
    and one that is not about its type."""
    return len(error["loc"]), not error["type"].endswith("_type")


def check_limits(settings: Settings, asked: Asked) -> None:
    texts = asked.texts()
    characters = sum(map(len, texts))
    if 0 <= settings.batch_limit < len(texts):
        raise Problem(400, f"{len(texts)} texts; this server takes {settings.batch_limit} at once")
    if 0 <= settings.char_limit < characters:
        raise Problem(400, f"{characters} characters of text; this server takes {settings.char_limit} at once")
    for name in ("beam", "n_best"):
        if 0 <= settings.beam_limit < (getattr(asked, name, None) or 1):
            raise Problem(400, f"{name}: this server takes {settings.beam_limit} at most")
    if isinstance(asked, translate.Request):
        translate.check_size(asked)


def find(catalogue: Catalogue, task: str, asked: Asked) -> Served:
    """By a name, which is looked up among those served and never more than that; or by languages."""
    if isinstance(asked, translate.Request) and isinstance(asked.model, translate.Pair):
        source, target = internal(asked.model.source), internal(asked.model.target)
        if found := catalogue.pair(source, target):
            return found
        raise Problem(404, f"no model of this server translates from {public(source)} to {public(target)}")
    name = str(asked.model)
    try:
        return catalogue.find(name, task)
    except UserError as error:
        raise Problem(404 if name or not catalogue.of_task(task) else 400, str(error)) from None


# What is answered.


async def _translated(engine: Engine, model: Served, asked: translate.Request, owner: str) -> dict[str, Any]:
    how = Search(**asked.model_dump(exclude={"model", "text"}))
    texts = asked.texts()
    found = await engine.translate(model.name, texts, how, owner)
    return {"answers": [translate.answered(text, one) for text, one in zip(texts, found, strict=True)]}


def _json(model: Served, tree: dict[str, Any]) -> JSONResponse:
    try:
        return JSONResponse({"model": model.name, **tree})
    except ValueError:  # JSON has no infinity
        raise Problem(400, "the model's answer is not finite: the input is too far from what it has learnt") from None


async def _streamed(model: Served, parts: AsyncIterator[dict[str, Any]]) -> StreamingResponse:
    """Server-sent events. What is refused before the first of them is refused with a status, as everywhere."""
    first = await anext(parts, None)

    async def events() -> AsyncIterator[str]:
        part = first
        async with aclosing(cast(AsyncGenerator[Any], parts)):  # when the client goes, the computing stops
            try:
                while part is not None:
                    done = {"model": model.name, **part["done"]} if "done" in part else None
                    yield _event("done", done) if done else _event("", part)
                    part = await anext(parts, None)
            except (Busy, Failed, Refused) as error:
                yield _event("error", {"error": str(error)})

    return StreamingResponse(events(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


def _event(name: str, data: dict[str, Any]) -> str:
    """One event; JSON without line ends, which would end it."""
    return (f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n"


# What OpenAPI is told.


def _schema(form: type[BaseModel]) -> Schema:
    """With what it refers to in its place, so that it can stand anywhere."""
    schema = form.model_json_schema()
    known = schema.pop("$defs", {})

    def whole(part: Any) -> Any:
        if isinstance(part, list):
            return [whole(one) for one in part]
        if not isinstance(part, dict):
            return part
        referred = known[part["$ref"].rpartition("/")[2]] if "$ref" in part else {}
        return {name: whole(one) for name, one in {**referred, **part}.items() if name not in ("$ref", "example")}

    return whole(schema)


def _asking(module: ModuleType) -> dict[str, Any]:
    content: dict[str, Any] = {}
    parameters: list[dict[str, Any]] = []
    for form in _forms(module):
        schema = _schema(form)
        if not issubclass(form, AskedOfFile):
            content["application/json"] = {"schema": schema, "example": example_of(form)}
            continue
        content |= {media: {"schema": {"type": "string", "format": "binary"}} for media in _media(form)}
        options = {name: option for name, option in schema["properties"].items() if name != "content"}
        parameters += [{"name": name, "in": "query", "schema": option} for name, option in options.items()]
    return {"requestBody": {"required": True, "content": content}, "parameters": parameters}


def _answers(module: ModuleType) -> dict[int | str, Any]:
    schema = _schema(module.Answer)
    told = answer(schema.pop("description", "The answer."), schema, example_of(module.Answer))
    if hasattr(module, "parts"):
        shown = _event("", {"text": " time", "token": "▁time", "probability": 0.9}) + "event: done\ndata: {...}\n\n"
        told["content"]["text/event-stream"] = {"schema": {"type": "string"}, "example": shown}
    return {200: told, **refusals(400, 403, 413, 429, 503, examples={400: "model: has characters that no name has"})}
