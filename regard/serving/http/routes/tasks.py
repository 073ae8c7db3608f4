"""Our own API, /api: one route per module of workers/tasks/."""

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
from regard.glossary import Glossary
from regard.languages import internal, public
from regard.serving.catalogue import Catalogue, Route, ServedModel, Step, name_of
from regard.serving.http.http_error import HttpError
from regard.serving.http.request_body import is_text, media_type
from regard.serving.http.request_fields import fields_of, query_fields
from regard.serving.http.routes.openapi import Schema, array, errors, obj, response, text
from regard.serving.settings import Settings
from regard.serving.text.chain import translate_along
from regard.serving.workers.errors import JobFailed, JobRefused, ServerBusy
from regard.serving.workers.interactive import continuations
from regard.serving.workers.tasks import module_of, task_names, translate
from regard.serving.workers.tasks._request import FileTaskRequest, TaskRequest, example_of
from regard.serving.workers.translation_result import SearchOptions

if TYPE_CHECKING:
    from regard.serving.workers.worker_pool import WorkerPool

FILES = ("image/", "audio/", "application/octet-stream")
"""Prefixes of the Content-Type of files."""


def router(settings: Settings, catalogue: Catalogue, pool: WorkerPool) -> APIRouter:
    routes = APIRouter(prefix="/api", tags=["All tasks"])
    languages = {name: text("Language code, for translation models.") for name in ("source", "target")}
    languages |= {
        name: array({"type": "string"}, description="Language codes, for translation models of several directions.")
        for name in ("sources", "targets")
    }
    served = obj({"name": text("The name to use in requests."), "task": text("The route that uses it."), **languages})
    example = {"models": [{"name": "fr-en", "task": "translate", "source": "fr", "target": "en"}]}
    described = response("The models.", obj({"models": array(served)}), example)

    listed = JSONResponse({"models": [_described(model) for model in catalogue.models.values()]}).body

    @routes.get("/models", summary="List models", responses={200: described, **errors(403, 429)})
    async def models() -> Response:
        """`GET /languages` lists the pairs of languages."""
        return Response(listed, media_type="application/json")

    for task in task_names():
        module = module_of(task)
        routes.add_api_route(
            f"/{task}",
            _route(task, module, settings, catalogue, pool),
            methods=["POST"],
            name=task,
            summary=(module.__doc__ or task).partition("\n")[0],
            description=" ".join((vars(module.Request).get("__doc__") or "").split()),
            responses=described_responses(module),
            openapi_extra=described_body(module),
        )
    return routes


def _described(model: ServedModel) -> dict[str, Any]:
    found: dict[str, Any] = {"name": model.name, "task": model.task}
    if model.multilingual:
        targets = {target for targets in model.directions.values() for target in targets}
        return {**found, "sources": sorted(map(public, model.directions)), "targets": sorted(map(public, targets))}
    return {**found, "source": public(model.source), "target": public(model.target)} if model.source else found


def _route(
    task: str, module: ModuleType, settings: Settings, catalogue: Catalogue, pool: WorkerPool
) -> Callable[[Request], Awaitable[Response]]:
    async def route(request: Request) -> Response:
        parsed = await _parse(request, module)
        check_limits(settings, parsed)
        if isinstance(parsed, translate.Request):
            route = find_route(catalogue, parsed)
            return _json(name_of(route), await _translated(pool, route, parsed, request.state.owner))
        model = find(catalogue, task, str(parsed.model))
        fields = parsed.model_dump(exclude={"model"}, exclude_none=True)
        if parsed.streamed():
            return await _streamed(model, pool.stream(model.name, task, fields))
        return _json(model.name, await pool.run_task(model.name, task, fields))

    return route


# Requests.


def _request_types(module: ModuleType) -> list[type[TaskRequest]]:
    return [vars(module)[name] for name in ("Request", "FileRequest") if name in module.__all__]


async def _parse(request: Request, module: ModuleType) -> TaskRequest:
    """The request as one of the task's types: fields, or a file with options in the query string."""
    kind = media_type(request.headers)
    for schema in _request_types(module):
        if issubclass(schema, FileTaskRequest) and kind.startswith(FILES):
            if not (body := await request.body()):
                raise HttpError(400, "The body is empty; send the file itself as the body")
            query = query_fields(request.scope["query_string"])
            return validated(schema, {**query, "content": base64.b64encode(body).decode()})
        if not issubclass(schema, FileTaskRequest) and is_text(request.headers):
            return validated(schema, await fields_of(request))
    accepted = [media for schema in _request_types(module) for media in _media(schema)]
    raise HttpError(415, f"This Content-Type is not supported; send one of {', '.join(accepted)}")


def _media(schema: type[TaskRequest]) -> tuple[str, ...]:
    return (*schema.media, "application/octet-stream") if issubclass(schema, FileTaskRequest) else ("application/json",)


def validated(schema: type[TaskRequest], fields: dict[str, Any]) -> TaskRequest:
    """Validates the fields; raises 400 with one line about the first error."""
    try:
        return schema.model_validate({name: value for name, value in fields.items() if name != "api_key"})
    except ValidationError as error:
        found = max(error.errors(include_url=False, include_context=False, include_input=False), key=_specificity)
        where = ".".join(str(part) for index, part in enumerate(found["loc"]) if not index or isinstance(part, int))
        message = "has invalid characters" if found["type"] == "string_pattern_mismatch" else found["msg"]
        raise HttpError(400, f"{where}: {message[:1].lower()}{message[1:]}") from None


def _specificity(error: Any) -> tuple[int, bool]:
    """Ranks the errors of a union: the deepest, and one that is not about the type, concerns the intended variant."""
    return len(error["loc"]), not error["type"].endswith("_type")


def check_limits(settings: Settings, request: TaskRequest) -> None:
    texts = request.texts()
    characters = sum(map(len, texts))
    if 0 <= settings.batch_limit < len(texts):
        raise HttpError(400, f"{len(texts)} texts; this server takes {settings.batch_limit} at once")
    if 0 <= settings.char_limit < characters:
        raise HttpError(400, f"{characters} characters of text; this server takes {settings.char_limit} at once")
    for name, value in request.model_dump(include={"beam", "n_best"}).items():
        if 0 <= settings.beam_limit < (value or 1):
            raise HttpError(400, f"{name}: this server takes {settings.beam_limit} at most")
    if isinstance(request, translate.Request):
        translate.check_size(request)


def find(catalogue: Catalogue, task: str, name: str) -> ServedModel:
    """The requested model, only among the served ones."""
    try:
        return catalogue.find(name, task)
    except UserError as error:
        raise HttpError(404 if name or not catalogue.of_task(task) else 400, str(error)) from None


def find_route(catalogue: Catalogue, request: translate.Request | continuations.Request) -> Route:
    """The requested model and its direction, or how to translate between the requested languages."""
    pair, name = (request, request.model) if isinstance(request.model, str) else (request.model, "")
    source, target = internal(pair.source or ""), internal(pair.target or "")
    if source and target and not name:
        if found := catalogue.route(source, target):
            return found
        raise HttpError(404, f"no model of this server translates from {public(source)} to {public(target)}")
    model = find(catalogue, "translate", name)
    try:
        return (model.step(source, target),) if source or target or model.multilingual else (Step(model, "", ""),)
    except UserError as error:
        raise HttpError(400, str(error)) from None


# Responses.


async def _translated(pool: WorkerPool, route: Route, request: translate.Request, owner: str) -> dict[str, Any]:
    texts = request.texts()
    try:
        rows = tuple(Glossary.of(request.glossary, "glossary").occurring(texts).rows()) if request.glossary else ()
    except UserError as error:
        raise HttpError(400, str(error)) from None
    if rows and len(route) > 1:
        raise HttpError(400, "glossary: needs a model that translates directly between the languages")
    options = request.model_dump(exclude={"model", "text", "source", "target", "glossary"})
    search = SearchOptions(**options, glossary=rows)
    found = await translate_along(pool, route, texts, search, owner)
    return {"answers": [translate.answered(text, one) for text, one in zip(texts, found, strict=True)]}


def _json(model: str, tree: dict[str, Any]) -> JSONResponse:
    try:
        return JSONResponse({"model": model, **tree})
    except ValueError:  # JSON has no infinity
        raise HttpError(400, "the model's output is not finite: the input is too far from its training data") from None


async def _streamed(model: ServedModel, parts: AsyncIterator[dict[str, Any]]) -> StreamingResponse:
    """Server-sent events. An error before the first event still gets its own status."""
    first = await anext(parts, None)

    async def events() -> AsyncIterator[str]:
        part = first
        async with aclosing(cast(AsyncGenerator[Any], parts)):  # cancels the job when the client disconnects
            try:
                while part is not None:
                    done = {"model": model.name, **part["done"]} if "done" in part else None
                    yield _event("done", done) if done else _event("", part)
                    part = await anext(parts, None)
            except (ServerBusy, JobFailed, JobRefused) as error:
                yield _event("error", {"error": str(error)})

    return StreamingResponse(events(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


def _event(name: str, data: dict[str, Any]) -> str:
    """One server-sent event; its JSON has no line breaks, which would end it."""
    return (f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n"


# OpenAPI.


def _schema(model: type[BaseModel]) -> Schema:
    """The JSON schema with all references inlined."""
    schema = model.model_json_schema()
    known = schema.pop("$defs", {})

    def inlined(part: Any) -> Any:
        if isinstance(part, list):
            return [inlined(one) for one in part]
        if not isinstance(part, dict):
            return part
        referred = known[part["$ref"].rpartition("/")[2]] if "$ref" in part else {}
        return {name: inlined(one) for name, one in {**referred, **part}.items() if name not in ("$ref", "example")}

    return inlined(schema)


def described_body(module: ModuleType) -> dict[str, Any]:
    content: dict[str, Any] = {}
    parameters: list[dict[str, Any]] = []
    for request in _request_types(module):
        schema = _schema(request)
        if not issubclass(request, FileTaskRequest):
            content["application/json"] = {"schema": schema, "example": example_of(request)}
            continue
        content |= {media: {"schema": {"type": "string", "format": "binary"}} for media in _media(request)}
        options = {name: option for name, option in schema["properties"].items() if name != "content"}
        parameters += [{"name": name, "in": "query", "schema": option} for name, option in options.items()]
    return {"requestBody": {"required": True, "content": content}, "parameters": parameters}


def described_responses(module: ModuleType) -> dict[int | str, Any]:
    schema = _schema(module.Answer)
    described = response(schema.pop("description", "The answer."), schema, example_of(module.Answer))
    if "parts" in module.__all__:
        example = _event("", {"text": " time", "token": "▁time", "probability": 0.9}) + "event: done\ndata: {...}\n\n"
        described["content"]["text/event-stream"] = {"schema": {"type": "string"}, "example": example}
    return {200: described, **errors(400, 403, 413, 429, 503, examples={400: "model: has invalid characters"})}
