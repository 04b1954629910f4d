"""One sequence on its way through the scheduler: what is decoded, who watches, who is told."""

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
    """What is told of a sequence while it is decoded; called on the engine's thread, between two
    passes. A sequence that is begun anew makes the same steps again: nothing is told twice.
    """

    def restart(self, request: Request) -> None:
        """Go on with ``request``, which makes the same steps from the first on."""
        ...

    def step(self, step: Step) -> Any | None:
        """What a step is worth telling, if anything."""
        ...

    def end(self, completion: Completion) -> Any:
        """What is left to tell once the sequence has ended."""
        ...


@dataclass(frozen=True)
class Event:
    """Something about the sequence ``index`` of a request: what its watch told, and at its end the
    ``completion`` or the ``error``.
    """

    index: int
    told: Any = None
    completion: Completion | None = None
    error: ApiError | None = None

    @property
    def last(self) -> bool:
        """Whether nothing follows."""
        return self.completion is not None or self.error is not None


@dataclass(eq=False)
class Job:
    """One sequence of a client's request, the ``index``-th, and who is told of it. ``make`` makes
    the engine's request anew at each call; ``send`` may be called from any thread. ``arrived``, and
    ``first``, when the first token of the answer was final, are seconds of ``time.perf_counter``.
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
        """The number of its request in the decoding loop."""
        return self.request.id

    def restart(self) -> None:
        """Begin anew; the steps will be the same."""
        self.request = self.make()
        self.watch.restart(self.request)

    def note(self, step: Step) -> None:
        """Tell of a step. A watch that fails costs its own request alone, at its end."""
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
        """Tell of the end."""
        if self._broken is not None:
            self.fail(self._broken)
            return
        self.send(Event(self.index, self.watch.end(completion), completion))

    def fail(self, error: ApiError) -> None:
        """Tell that there will be no end."""
        self.send(Event(self.index, error=error))
