"""The application: routes, guards, and errors in OpenAI's shape."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response

from entropycache.engine.engine import Engine
from entropycache.errors import EntropyCacheError
from entropycache.server.errors import ApiError, draining, failed, invalid
from entropycache.server.middleware import BodyLimit, KeyCheck
from entropycache.server.page_routes import page_routes
from entropycache.server.responses import Json, error_response
from entropycache.server.schema import (
    CanvasRequest,
    ChatRequest,
    CompletionRequest,
    DetokenizeRequest,
    TokenizeRequest,
)
from entropycache.server.service import Service
from entropycache.server.settings import ServerSettings, version


def create_app(engine: Engine, settings: ServerSettings) -> FastAPI:
    """The server's application over ``engine``, which nobody else may use from now on.

    The engine's thread starts and ends with the application. Errors have OpenAI's shape.
    """
    service = Service(engine, settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        service.stop()

    # The first guard is the outermost: refusals by key or size must carry the CORS headers, without
    # which a browser hides them from the page that asked.
    guards = [Middleware(BodyLimit, limit=settings.max_request_bytes)]
    if settings.api_key is not None:
        guards.insert(0, Middleware(KeyCheck, key=settings.api_key))
    if settings.cors_origins:
        origins = list(settings.cors_origins)
        cors = Middleware(
            CORSMiddleware, allow_origins=origins, allow_methods=["*"], allow_headers=["*"]
        )
        guards.insert(0, cors)
    app = FastAPI(
        title="EntropyCache",
        version=version(),
        lifespan=lifespan,
        middleware=guards,
        docs_url=None,  # its page would load scripts from elsewhere
        redoc_url=None,
        exception_handlers=_HANDLERS,
    )
    app.state.service = service
    app.include_router(model_routes(service))
    app.include_router(list_routes(service))
    app.include_router(text_routes(service))
    app.include_router(state_routes(service))
    app.include_router(page_routes(service))
    _correct(app.openapi())
    return app


def _correct(document: dict[str, Any]) -> None:
    """Remove FastAPI's 422 from the API's document: wrong requests are answered with 400 here."""
    for path in document["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
    for schema in ("HTTPValidationError", "ValidationError"):
        document["components"]["schemas"].pop(schema, None)


_ERROR = {
    "description": "OpenAI's error shape; param names the field",
    "content": {"application/json": {"schema": {"type": "object", "required": ["error"]}}},
}


def model_routes(service: Service) -> APIRouter:
    """The routes that decode: chat completions, completions, and the canvas step by step."""
    errors: dict[int | str, dict[str, Any]] = {s: _ERROR for s in (400, 404, 429, 503)}
    router = APIRouter(responses=errors)

    @router.post("/v1/chat/completions", response_class=Json)
    async def chat(body: ChatRequest, request: Request) -> Response:
        return await service.complete(body, request)

    @router.post("/v1/completions", response_class=Json)
    async def completions(body: CompletionRequest, request: Request) -> Response:
        return await service.complete(body, request)

    @router.post("/v1/canvas", response_class=Json)
    async def canvas(body: CanvasRequest) -> Response:
        return await service.canvas(body)

    return router


def list_routes(service: Service) -> APIRouter:
    """The routes that list the served model."""
    router = APIRouter(responses={400: _ERROR, 404: _ERROR})
    model = {
        "id": service.settings.model,
        "object": "model",
        "created": int(time.time()),
        "owned_by": "entropycache",
        "max_model_len": service.engine.network.config.max_position_embeddings,
    }

    @router.get("/v1/models", response_class=Json)
    async def models() -> Response:
        return Json({"object": "list", "data": [model]})

    @router.get("/v1/models/{name:path}", response_class=Json)
    async def one_model(name: str) -> Response:
        service.check_model(name)
        return Json(model)

    return router


def text_routes(service: Service) -> APIRouter:
    """The routes that turn text into token ids and back."""
    router = APIRouter(responses={400: _ERROR, 404: _ERROR})
    tokenizer = service.engine.tokenizer
    room = service.engine.network.config.max_position_embeddings

    @router.post("/tokenize", response_class=Json)
    async def tokenize(body: TokenizeRequest) -> Response:
        service.check_model(body.model)
        if (body.prompt is None) == (body.messages is None):
            raise invalid("give one of prompt and messages", "prompt")
        prompt = body.prompt if body.messages is None else [m.plain() for m in body.messages]
        field = "prompt" if body.messages is None else "messages"
        try:
            ids = await service.with_text(lambda: tokenizer.encode(prompt or ""))
        except EntropyCacheError as error:
            raise invalid(str(error), field) from error
        return Json({"count": len(ids), "max_model_len": room, "tokens": ids.tolist()})

    @router.post("/detokenize", response_class=Json)
    async def detokenize(body: DetokenizeRequest) -> Response:
        service.check_model(body.model)
        try:
            return Json({"prompt": await service.with_text(lambda: tokenizer.spell(body.tokens))})
        except EntropyCacheError as error:
            raise invalid(str(error), "tokens") from error

    return router


def state_routes(service: Service) -> APIRouter:
    """The routes that tell the server's state: health, readiness, version and metrics."""
    router = APIRouter(responses={503: _ERROR})

    @router.get("/health", response_class=Json)
    async def health() -> Response:
        if not service.engine_thread.alive:
            raise ApiError(503, "the engine's thread has ended", "engine_ended")
        return Json({"status": "ok"})

    @router.get("/ready", response_class=Json)
    async def ready() -> Response:
        # Not ready while draining, though healthy: a balancer sends elsewhere, and nothing kills
        # the process before it has answered what it accepted.
        if service.engine_thread.draining or not service.engine_thread.alive:
            raise draining()
        return Json({"status": "ready"})

    @router.get("/version", response_class=Json)
    async def release() -> Response:
        return Json({"version": version()})

    @router.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        return Response(service.metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return router


async def _api_error(request: Request, error: Any) -> Response:
    return error_response(error)


async def _validation(request: Request, error: Any) -> Response:
    first = error.errors()[0]
    place = [part for part in first["loc"] if part != "body"]
    field = str(place[0]) if place and isinstance(place[0], str) else None
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        message = "no such field here"
    where = ".".join(str(part) for part in place) if field else "the body"
    return error_response(invalid(f"{where}: {message}", field))


async def _http(request: Request, error: Any) -> Response:
    # FastAPI wraps what BodyLimit raises while the body is read.
    if isinstance(error.__cause__, ApiError):
        return error_response(error.__cause__)
    status, text = error.status_code, str(error.detail)
    code = {404: "not_found", 405: "method_not_allowed"}.get(status, "invalid_request")
    return error_response(ApiError(status, text, code, headers=error.headers))


async def _unexpected(request: Request, error: Any) -> Response:
    return error_response(failed("the server failed; its log says why"))


_HANDLERS: dict[Any, Any] = {
    ApiError: _api_error,
    RequestValidationError: _validation,
    HTTPException: _http,
    Exception: _unexpected,
}
