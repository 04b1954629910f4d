"""The page: files of the package under fixed paths, and the facts it shows about the server."""

from __future__ import annotations

from dataclasses import asdict
from importlib.resources import files
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from entropycache.io.problems import held_out, task_names
from entropycache.policies.table import rows
from entropycache.server.responses import Json
from entropycache.server.service import Service

KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
EXAMPLES_PER_TASK = 3
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def page_routes(service: Service) -> APIRouter:
    """The routes of the page, left out of the API's document."""
    router = APIRouter(include_in_schema=False)
    folder = files("entropycache") / "server" / "page"
    # A route for each file and none with a path in it: no request can name another file.
    for entry in folder.iterdir():
        kind = KINDS.get(entry.name.rpartition(".")[2])
        if kind is not None:
            path = "/" if entry.name == "index.html" else f"/page/{entry.name}"
            _serve(router, path, entry.read_bytes(), kind)
    about = facts(service)
    router.add_api_route("/page/about.json", lambda: Json(about), methods=["GET"])
    return router


def _serve(router: APIRouter, path: str, body: bytes, kind: str) -> None:
    def page() -> Response:
        return Response(body, media_type=kind, headers=HEADERS)

    router.add_api_route(path, page, methods=["GET"])


def facts(service: Service) -> dict[str, Any]:
    """The facts that the page shows: model, policies, defaults, and held-out problems to try."""
    settings = service.settings
    problems = [
        {"task": task, "question": problem.question, "answer": problem.answer}
        for task in task_names()
        for problem in held_out(task)[:EXAMPLES_PER_TASK]
    ]
    return {
        "model": settings.model,
        "positions": service.engine.network.config.max_position_embeddings,
        "key": settings.api_key is not None,
        "policies": [dict(zip(("name", "options", "what"), row, strict=False)) for row in rows()],
        "defaults": asdict(settings.defaults),
        "problems": problems,
    }
