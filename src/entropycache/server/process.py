"""The server as a process: it listens, and at SIGTERM or SIGINT finishes accepted requests."""

from __future__ import annotations

import signal
from types import FrameType

import uvicorn

from entropycache.engine.engine import Engine
from entropycache.server.app import create_app
from entropycache.server.settings import ServerSettings


class DrainingServer(uvicorn.Server):
    """Answers accepted requests after the first signal, and ends at once at the second.

    Meanwhile it listens on, so that new requests are answered with 503 and not with a refused
    connection.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._engine_thread = config.app.state.service.engine_thread  # type: ignore[union-attr]

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Start to drain, or end at once if that has started already."""
        if self._engine_thread.draining:
            self.should_exit = self.force_exit = True
        self._engine_thread.drain()

    async def on_tick(self, counter: int) -> bool:
        """True if the server is to end; uvicorn asks ten times a second."""
        if self._engine_thread.draining and not self._engine_thread.held:
            self.should_exit = True
        return await super().on_tick(counter)


def run(engine: Engine, settings: ServerSettings, host: str, port: int) -> None:
    """Serve on ``host`` and ``port`` until a signal, then return once accepted requests ended."""
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
    # uvicorn installs its handlers only once it starts: without this, an earlier signal would kill.
    signal.signal(signal.SIGTERM, server.handle_exit)
    server.run()
