"""The server as a process: it listens, and at SIGTERM or SIGINT finishes what it has accepted."""

from __future__ import annotations

import signal
from types import FrameType

import uvicorn

from entropycache.engine.engine import Engine
from entropycache.server.app import create_app
from entropycache.server.settings import ServerSettings


class DrainingServer(uvicorn.Server):
    """Goes on listening after the first signal, so that new requests are told 503, until the last
    accepted one has ended; a second signal ends it at once.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._engine_thread = config.app.state.service.engine_thread  # type: ignore[union-attr]

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain; and where that goes on already, end."""
        if self._engine_thread.draining:
            self.should_exit = self.force_exit = True
        self._engine_thread.drain()

    async def on_tick(self, counter: int) -> bool:
        """Whether to end: asked ten times a second."""
        if self._engine_thread.draining and not self._engine_thread.held:
            self.should_exit = True
        return await super().on_tick(counter)


def run(engine: Engine, settings: ServerSettings, host: str, port: int) -> None:
    """Serve until a signal; returns once everything accepted was answered."""
    config = uvicorn.Config(
        create_app(engine, settings),
        host=host,
        port=port,
        log_level="info",
        access_log=False,
        server_header=False,
        timeout_keep_alive=30,
    )
    server = DrainingServer(config)
    signal.signal(signal.SIGTERM, server.handle_exit)  # a signal before it listens is heard too
    server.run()
