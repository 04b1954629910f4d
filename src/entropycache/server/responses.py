"""Responses: JSON, and event streams that end when the client does.

Both are written in ASCII: no character of a text can be taken for the end of a line, and lone
surrogates cannot break the encoding.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from entropycache.server.errors import ApiError, timed_out

T = TypeVar("T")
GRACE_SECONDS = 5.0
"""The time that a slow reader has for the last events of a stream that ran out of time."""


def dumps(value: Any) -> str:
    """Compact JSON in ASCII."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


class Json(Response):
    """A response with a JSON object."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The body as bytes."""
        return dumps(content).encode()


def error_response(error: ApiError) -> Json:
    """An error as a response."""
    return Json(error.body, error.status, headers=error.headers)


async def gone(receive: Receive) -> None:
    """Return once the client has gone away; the request's body must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, T], seconds: float) -> T | None:
    """The result of ``work``, or ``None`` if the client goes away first.

    Raises ``ApiError`` (504) if it takes longer than ``seconds``. Work that nobody waits for any
    more is cancelled.
    """
    task, watcher = asyncio.create_task(work), asyncio.create_task(gone(receive))
    try:
        done, _ = await asyncio.wait(
            {task, watcher}, timeout=seconds, return_when="FIRST_COMPLETED"
        )
        if task in done:
            return task.result()
        if watcher in done:
            return None
        raise timed_out(seconds)
    finally:
        await _cancel(task, watcher)


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class EventStream(Response):
    """Server-sent events: one JSON object each, and ``[DONE]`` at the end.

    ``events`` may raise ``ApiError``, which becomes the last event. So does running out of time
    after ``seconds``. ``close`` is called when the stream ends in any way, also when the client has
    gone away.
    """

    def __init__(
        self,
        events: AsyncIterator[Mapping[str, Any]],
        close: Callable[[], None],
        seconds: float,
    ) -> None:
        super().__init__(
            media_type="text/event-stream",
            headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"},
        )
        del self.headers["content-length"]  # Starlette says 0 for a body that is not there yet
        self._events, self._close, self._seconds = events, close, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until they end or the client has gone away."""
        sender = asyncio.create_task(self._send_all(send))
        watcher = asyncio.create_task(gone(receive))
        try:
            done, _ = await asyncio.wait(
                {sender, watcher},
                timeout=self._seconds + GRACE_SECONDS,
                return_when="FIRST_COMPLETED",
            )
            if sender in done:
                sender.result()
        finally:
            self._close()
            await _cancel(sender, watcher)

    async def _send_all(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        try:
            async with asyncio.timeout(self._seconds):
                async for event in self._events:
                    await self._send(send, dumps(event))
        except ApiError as error:
            await self._send(send, dumps(error.body))
        except TimeoutError:
            await self._send(send, dumps(timed_out(self._seconds).body))
        await self._send(send, "[DONE]")
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, send: Callable[[Any], Awaitable[None]], data: str) -> None:
        body = f"data: {data}\n\n".encode()
        await send({"type": "http.response.body", "body": body, "more_body": True})
