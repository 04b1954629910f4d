"""One sequence of a client's request on its way through the scheduler, with its watcher.

The module knows requests and steps of the engine, not HTTP.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from entropycache.core.steps import Step
from entropycache.engine.output import Completion
from entropycache.engine.request import Request
from entropycache.server.errors import ApiError, failed

log = logging.getLogger("entropycache.server")


class Watch(Protocol):
    """Turns the steps of one sequence into values for its client.

    ``step`` is called after each step and ``end`` once, on the engine's thread between two passes.
    After ``restart`` the sequence makes the same steps again from the first; a watch returns
    nothing twice. It must not change the request.
    """

    def restart(self, request: Request) -> None:
        """Continue with ``request``, which makes the same steps again from the first."""
        ...

    def step(self, step: Step) -> Any | None:
        """The value to send after a step, or ``None`` for nothing."""
        ...

    def end(self, completion: Completion) -> Any:
        """The value to send once the sequence has ended."""
        ...


@dataclass(frozen=True)
class Event:
    """News of the sequence ``index`` of a client's request.

    ``told`` is the value that its watch returned. The last event has a ``completion`` or an
    ``error``.
    """

    index: int
    told: Any = None
    completion: Completion | None = None
    error: ApiError | None = None

    @property
    def last(self) -> bool:
        """True if no event of this sequence follows."""
        return self.completion is not None or self.error is not None


@dataclass(eq=False)
class Job:
    """One sequence of a client's request, the ``index``-th, with its watch.

    ``make`` returns a new request of the engine with the same settings at each call. ``send`` takes
    the events and may be called from any thread. ``arrived`` is the time of arrival, and ``first``
    the time at which the first token of the answer was final, both in seconds of
    ``time.perf_counter``.
    """

    index: int
    request: Request
    make: Callable[[], Request]
    watch: Watch
    send: Callable[[Event], None]
    arrived: float = field(default_factory=time.perf_counter)
    first: float | None = None
    _broken: ApiError | None = field(default=None, init=False)

    @property
    def number(self) -> int:
        """The id of its request in the decoding loop."""
        return self.request.id

    def restart(self) -> None:
        """Start again with a new request, which makes the same steps."""
        self.request = self.make()
        self.watch.restart(self.request)

    def note(self, step: Step) -> None:
        """Send the news of a step.

        A watch that raises ends its own sequence alone, with an error.
        """
        sequence = self.request.sequence
        if self.first is None and sequence.first_masked() > sequence.start:
            self.first = time.perf_counter()
        if self._broken is not None:
            return
        try:
            told = self.watch.step(step)
        except Exception:  # a tokenizer's own failure, say
            log.exception("a step could not be told")
            self._broken = failed("the text could not be read; the server's log says why")
            sequence.done = True
            return
        if told is not None:
            self.send(Event(self.index, told))

    def end(self, completion: Completion) -> None:
        """Send the completion, or the error of a watch that failed."""
        if self._broken is not None:
            self.fail(self._broken)
            return
        self.send(Event(self.index, self.watch.end(completion), completion))

    def fail(self, error: ApiError) -> None:
        """Send ``error`` as the last event."""
        self.send(Event(self.index, error=error))
