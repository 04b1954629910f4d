"""Guards in front of the routes: they refuse a body that is too large and a wrong API key."""

from __future__ import annotations

import hmac

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from entropycache.server.errors import ApiError
from entropycache.server.responses import error_response

GUARDED = ("/v1/", "/tokenize", "/detokenize")
"""Paths that need a key: health, metrics and the page itself are open."""


def _too_large(limit: int) -> ApiError:
    return ApiError(413, f"the request is larger than {limit} bytes", "request_too_large")


class BodyLimit:
    """Refuses bodies of more than ``limit`` bytes with 413, by their header or as they come in."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app, self._limit = app, limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with 413, or pass the request on with a body that is counted as it is read."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = Headers(scope=scope).get("content-length", "0")
        # 19 digits hold every size there is, and int() raises for some thousands of them.
        if announced.isdigit() and int(announced[:19]) > self._limit:
            await error_response(_too_large(self._limit))(scope, receive, send)
            return
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._limit:
                raise _too_large(self._limit)
            return message

        await self._app(scope, counted, send)


class KeyCheck:
    """Requires ``Authorization: Bearer KEY`` on the paths of ``GUARDED``, and refuses with 401."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app, self._key = app, key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on if it bears the key or needs none."""
        if scope["type"] == "http" and scope["path"].startswith(GUARDED):
            scheme, _, given = Headers(scope=scope).get("authorization", "").partition(" ")
            # In constant time: how long a comparison takes must not tell how much was right.
            right = hmac.compare_digest(given.strip().encode(), self._key)
            if scheme.lower() != "bearer" or not right:
                wrong = ApiError(
                    401,
                    "wrong or missing API key; send Authorization: Bearer KEY",
                    "invalid_api_key",
                    headers={"WWW-Authenticate": "Bearer"},
                )
                await error_response(wrong)(scope, receive, send)
                return
        await self._app(scope, receive, send)
