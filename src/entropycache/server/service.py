"""The way of a request from its arrival to its answer, on the event loop.

Requests are checked and encoded on a thread for text and decoded on the engine's thread. Their
events come back to the event loop.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from starlette.requests import Request as HTTPRequest
from starlette.responses import Response

from entropycache.engine.engine import Engine
from entropycache.engine.output import Completion
from entropycache.engine.request import Request
from entropycache.server.engine_thread import EngineThread
from entropycache.server.errors import unknown_model
from entropycache.server.jobs import Event, Job, Watch
from entropycache.server.metrics import Metrics
from entropycache.server.openai_format import AnswerFormat, ChatFormat, TextFormat, usage
from entropycache.server.planner import Make, Planner, check
from entropycache.server.responses import EventStream, Json, unless_gone
from entropycache.server.schema import (
    CanvasRequest,
    ChatRequest,
    CompletionRequest,
    Decoding,
    Sampled,
)
from entropycache.server.settings import ServerSettings, version
from entropycache.server.watchers import CanvasWatch, Delta, Streamed, TextWatch

T = TypeVar("T")


class Session:
    """The sequences of one client's request, with one queue for the events of all.

    Room for ``count`` sequences is reserved at once. Raises ``ApiError`` if there is none.
    """

    def __init__(self, engine_thread: EngineThread, count: int) -> None:
        engine_thread.reserve(count)
        self._engine_thread, self._reserved = engine_thread, count
        self._loop = asyncio.get_running_loop()
        self._heard: asyncio.Queue[Event] = asyncio.Queue()
        self._open: dict[int, Job] = {}

    def begin(
        self, planned: list[tuple[Request, Make]], watch: Callable[[Request], Watch]
    ) -> list[Watch]:
        """Hand the sequences to the engine's thread, and return the watch of each.

        Raises ``ApiError`` (503) if that thread has been told to end.
        """
        jobs = [
            Job(i, request, make, watch(request), self._send)
            for i, (request, make) in enumerate(planned)
        ]
        assert len(jobs) == self._reserved
        self._engine_thread.submit(jobs)
        self._reserved, self._open = 0, {job.index: job for job in jobs}
        return [job.watch for job in jobs]

    async def events(self) -> AsyncIterator[Event]:
        """Yield the events of all sequences until each has ended.

        Raises the ``ApiError`` of the first sequence that fails.
        """
        while self._open:
            event = await self._heard.get()
            if event.last:
                del self._open[event.index]
            if event.error is not None:
                raise event.error
            yield event

    def close(self) -> None:
        """Cancel the sequences that have not ended; may be called more than once."""
        self._engine_thread.release(self._reserved)
        self._engine_thread.cancel(list(self._open.values()))
        self._reserved, self._open = 0, {}

    def _send(self, event: Event) -> None:
        with suppress(RuntimeError):  # the event loop has ended, and nobody listens
            self._loop.call_soon_threadsafe(self._heard.put_nowait, event)


class Service:
    """One engine on its thread, and everything that the routes use.

    Its coroutines run on the event loop, which neither decoding nor encoding blocks.
    """

    def __init__(self, engine: Engine, settings: ServerSettings) -> None:
        self.engine, self.settings = engine, settings
        self.metrics = Metrics(settings.metrics_prefix, settings.model)
        self.engine_thread = EngineThread(engine, settings, self.metrics)
        self._planner = Planner(engine, settings)
        # Off the event loop, because long prompts take time to encode; on a single thread, because
        # encoding is not safe on several at once.
        self._texts = ThreadPoolExecutor(1, "text")
        network = f"{version()} {settings.model} {engine.network.embedding.dtype}"
        self._fingerprint = f"ec_{hashlib.sha256(network.encode()).hexdigest()[:12]}"

    def start(self) -> None:
        """Start the engine's thread."""
        self.engine_thread.start()

    def stop(self) -> None:
        """End the engine's thread and the thread for text."""
        self.engine_thread.stop()
        self._texts.shutdown(cancel_futures=True)

    async def with_text(self, make: Callable[[], T]) -> T:
        """Return the result of ``make``, run on the thread for text; errors pass through."""
        return await asyncio.get_running_loop().run_in_executor(self._texts, make)

    def check_model(self, given: str | None) -> None:
        """Raise ``ApiError`` (404) if ``given`` names another model than the served one."""
        if given is not None and given != self.settings.model:
            raise unknown_model(given, self.settings.model)

    async def complete(
        self, body: ChatRequest | CompletionRequest, request: HTTPRequest
    ) -> Response:
        """The response to a chat or a completion, whole or as a stream.

        Raises ``ApiError`` for a request that is refused, fails or takes too long. The errors of a
        stream that has started are its last event.
        """
        kind = ChatFormat if isinstance(body, ChatRequest) else TextFormat
        answers = kind(self.settings.model, self._fingerprint, self.engine.tokenizer.token)
        session, _ = await self._open(body, Streamed if body.stream else TextWatch)
        seconds = self.settings.request_timeout
        if body.stream:
            return EventStream(_chunks(session, answers, body), session.close, seconds)
        try:
            found = await unless_gone(request.receive, _collect(session), seconds)
        finally:
            session.close()
        if found is None:
            return Response(status_code=499)  # the client has gone: nobody reads this
        return Json(answers.complete(found, body.choices, body.top is not None))

    async def canvas(self, body: CanvasRequest) -> Response:
        """The response that streams every step of one sequence.

        Raises ``ApiError`` for a request that is refused.
        """
        session, (watch,) = await self._open(body, CanvasWatch)
        assert isinstance(watch, CanvasWatch)
        return EventStream(
            _frames(session, watch.opening()), session.close, self.settings.request_timeout
        )

    async def _open(
        self, body: Decoding, watch: Callable[[Request], Watch]
    ) -> tuple[Session, list[Watch]]:
        self.check_model(body.model)
        # Room comes first: a full server refuses before it spends time on encoding.
        session = Session(self.engine_thread, check(body, self.settings))
        try:
            planned = await self.with_text(lambda: self._planner.plan(body))
            return session, session.begin(planned, watch)
        except BaseException:
            session.close()
            raise


async def _collect(session: Session) -> list[tuple[Completion, Delta]]:
    answers = {}
    async for event in session.events():
        if event.completion is not None:
            answers[event.index] = (event.completion, event.told)
    return [answers[i] for i in sorted(answers)]


async def _chunks(
    session: Session, answers: AnswerFormat, body: Sampled
) -> AsyncIterator[dict[str, Any]]:
    """Yield the chunks of a streamed answer."""
    scored = body.top is not None
    counted = bool(body.stream_options and body.stream_options.include_usage)
    opened: set[int] = set()
    done: dict[int, Completion] = {}
    async for event in session.events():
        parts = []
        if event.index not in opened:
            opened.add(event.index)
            parts.append(answers.opening(event.index))
        delta: Delta = event.told
        if delta.text or delta.tokens:
            parts.append(answers.piece(event.index, delta, scored))
        if event.completion is not None:
            done[event.index] = event.completion
            parts.append(answers.closing(event.index, event.completion.finish_reason))
        for part in filter(None, parts):
            yield answers.part([part], counted)
    if counted:
        counts = usage([done[i] for i in sorted(done)], body.choices)
        yield answers.part([], counted, counts)


async def _frames(session: Session, opening: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    yield opening
    async for event in session.events():
        yield event.told
