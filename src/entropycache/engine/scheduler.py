"""Requests that wait and requests that run: which of them share the next pass."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator

from entropycache.core.steps import Step
from entropycache.engine.loop import cancel, decode
from entropycache.engine.request import Request
from entropycache.engine.runner import Runner


class Scheduler:
    """Lets at most ``size`` requests run together, whose canvases have at most ``positions``
    positions in all. First come, first served.
    """

    def __init__(
        self,
        runner: Runner,
        size: int,
        positions: float = math.inf,
        requests: Iterable[Request] = (),
    ) -> None:
        self.running: list[Request] = []
        """The running ones, as the decoding loop reads them anew at each pass."""
        self._runner = runner
        self._waiting = deque(requests)
        self._size, self._positions = size, positions

    @property
    def waiting(self) -> int:
        """The number of requests that wait."""
        return len(self._waiting)

    def add(self, request: Request) -> None:
        """Let another request wait. Its canvas must fit by itself."""
        self._waiting.append(request)

    def admit(self) -> bool:
        """Let waiting requests run where there is room; returns whether any runs then."""
        while self._waiting and self._fits(self._waiting[0]):
            self.start(self._waiting.popleft())
        return bool(self.running)

    def start(self, request: Request) -> None:
        """Let a request run at once, whoever waits."""
        request.started = time.perf_counter()
        self.running.append(request)

    def steps(self) -> Generator[Step]:
        """Decode the running requests together; those that are admitted meanwhile join."""
        return decode(self.running, self._runner)

    def retire(self) -> Iterator[Request]:
        """Take out the requests that have ended."""
        for request in [r for r in self.running if not r.live]:
            self.running.remove(request)
            yield request

    def cancel(self, request: Request) -> None:
        """Take out a request that nobody wants any more, waiting or running, and free its slot. To
        be called between two steps.
        """
        for requests in (self._waiting, self.running):
            if request in requests:
                requests.remove(request)
        cancel(request, self._runner)

    def _fits(self, request: Request) -> bool:
        taken = sum(len(r.sequence) for r in self.running)
        room = self._positions - taken
        return len(self.running) < self._size and len(request.sequence) <= room
