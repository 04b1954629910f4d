"""The requests that wait and those that run: the choice of who shares the next pass."""

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
    """Runs requests together, first come, first served.

    At most ``size`` run at a time, and their canvases have at most ``positions`` positions in all.
    ``requests`` wait from the start.
    """

    def __init__(
        self,
        runner: Runner,
        size: int,
        positions: float = math.inf,
        requests: Iterable[Request] = (),
    ) -> None:
        self.running: list[Request] = []
        """The requests that run: the very list that the decoding loop reads before each pass."""
        self._runner = runner
        self._waiting = deque(requests)
        self._size, self._positions = size, positions

    @property
    def waiting(self) -> int:
        """The number of requests that wait."""
        return len(self._waiting)

    def add(self, request: Request) -> None:
        """Append a request to those that wait. Its canvas must fit into ``positions`` by itself."""
        self._waiting.append(request)

    def admit(self) -> bool:
        """Start waiting requests while there is room. Returns ``True`` if any request runs then."""
        # Nobody overtakes the first: a long canvas would else wait for as long as short ones come.
        while self._waiting and self._fits(self._waiting[0]):
            self.start(self._waiting.popleft())
        return bool(self.running)

    def start(self, request: Request) -> None:
        """Start a request at once, whatever the limits and whoever waits."""
        # From now on: time spent waiting is no time of decoding.
        request.started = time.perf_counter()
        self.running.append(request)

    def steps(self) -> Generator[Step]:
        """Decode the running requests together and yield each step.

        Requests that are admitted meanwhile join at the next pass.
        """
        return decode(self.running, self._runner)

    def retire(self) -> Iterator[Request]:
        """Remove the requests that have ended, and yield each of them."""
        for request in [r for r in self.running if not r.live]:
            self.running.remove(request)
            yield request

    def cancel(self, request: Request) -> None:
        """Remove a request that nobody wants any more, waiting or running, and release its slot.

        Call it between two steps.
        """
        for requests in (self._waiting, self.running):
            if request in requests:
                requests.remove(request)
        cancel(request, self._runner)

    def _fits(self, request: Request) -> bool:
        taken = sum(len(r.sequence) for r in self.running)
        room = self._positions - taken
        return len(self.running) < self._size and len(request.sequence) <= room
