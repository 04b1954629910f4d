"""What decoding gives back: completions, frames, and the counts kept while a request runs."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from entropycache.core.sequence import Sequence
from entropycache.core.steps import Step
from entropycache.engine.loop import Request
from entropycache.engine.stopping import Ending


@dataclass
class Completion:
    """What one prompt gave.

    ``token_ids`` is the whole generated region; where decoding stopped early the rest is filled
    with the end token. ``commits`` lists, for each step, the positions committed, counted from the
    begin of the generated region. ``rows_computed`` sums the positions computed over all passes,
    each as the mean over layers. ``tokens_per_second`` counts the answer's tokens, before the first
    end token, over ``seconds`` of wall time. ``error`` says why a request of a batch was aborted;
    its text is then what was complete before.
    """

    token_ids: list[int] = field(default_factory=list)
    text: str = ""
    finish_reason: str = "length"
    forwards: int = 0
    full_passes: int = 0
    rows_computed: float = 0
    commits: list[list[int]] = field(default_factory=list)
    seconds: float = 0.0
    tokens_per_second: float = 0.0
    answer_tokens: int = 0
    prompt_tokens: int = 0
    error: str | None = None


@dataclass(frozen=True)
class Frame:
    """One step as it is watched: the step, a copy of the canvas after it ``(length,)``, and where
    generation begins.
    """

    step: Step
    canvas: NDArray[np.int64]
    start: int

    @classmethod
    def of(cls, step: Step, sequence: Sequence) -> Frame:
        """The frame of a step that was just made."""
        _ = step.entropies  # computed now: the next pass takes away what they are computed from
        return cls(step, sequence.canvas.copy(), sequence.start)


@dataclass
class Tracked:
    """A request in the engine: its loop request, when its text ends, and the counts so far."""

    request: Request
    ending: Ending
    began: float
    completion: Completion = field(default_factory=Completion)

    def note(self, step: Step) -> None:
        """Count a step."""
        done, start = self.completion, self.request.sequence.start
        done.forwards += 1
        done.full_passes += step.full
        done.rows_computed += int(step.work) if step.work.is_integer() else step.work
        done.commits.append((step.commit.positions - start).tolist())

    def close(self) -> Completion:
        """The completion, once the request has ended."""
        done, canvas = self.completion, self.request.sequence
        done.seconds = time.perf_counter() - self.began
        done.prompt_tokens = canvas.given
        done.answer_tokens = len(self.ending.answer(canvas))
        done.tokens_per_second = done.answer_tokens / done.seconds if done.seconds else 0.0
        done.text, done.finish_reason = self.ending.finish(canvas)
        region = canvas.canvas[canvas.start :].copy()
        if self.request.error is not None:
            done.error, done.finish_reason = str(self.request.error), "error"
        elif self.ending.text.end_ids:
            region[region == canvas.mask_id] = min(self.ending.text.end_ids)
        done.token_ids = region.tolist()
        return done

    def close_filled(self, text: str) -> Completion:
        """The completion of a canvas whose masks were filled in: all of it, counted from its
        begin.
        """
        done, canvas = self.close(), self.request.sequence
        done.answer_tokens = sum(len(step) for step in done.commits)
        done.prompt_tokens = len(canvas) - done.answer_tokens
        done.tokens_per_second = done.answer_tokens / done.seconds if done.seconds else 0.0
        done.commits = [[canvas.start + position for position in step] for step in done.commits]
        done.token_ids, done.text, done.finish_reason = canvas.canvas.tolist(), text, "stop"
        return done


class Queue:
    """Requests that wait and requests that run: at most ``size`` of them together, whose canvases
    have at most ``positions`` in all. First come, first served.
    """

    def __init__(self, tracked: list[Tracked], size: int, positions: float = math.inf) -> None:
        self.requests: list[Request] = []
        """The running ones, as the decoding loop reads them anew at each pass."""
        self._waiting = deque(tracked)
        self._running: dict[int, Tracked] = {}
        self._size, self._positions = size, positions
        self._taken = 0

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def add(self, task: Tracked) -> None:
        """Let another request wait. Its canvas must fit by itself."""
        self._waiting.append(task)

    def admit(self) -> bool:
        """Let waiting requests run where there is room; whether any runs then."""
        while self._waiting and self._fits(self._waiting[0]):
            self.start(self._waiting.popleft())
        return bool(self._running)

    def start(self, task: Tracked) -> None:
        """Let a request run at once, whoever waits."""
        task.began = time.perf_counter()
        self._running[task.request.id] = task
        self._taken += len(task.request.sequence)
        self.requests.append(task.request)

    def note(self, step: Step) -> Tracked:
        """Count a step; returns whose it was."""
        task = self._running[step.request]
        task.note(step)
        return task

    def retire(self) -> Iterator[tuple[int, Completion]]:
        """Take out the requests that have ended, with their completions."""
        for task in [t for t in self._running.values() if not t.request.live]:
            self._leave(task)
            yield task.request.id, task.close()

    def remove(self, task: Tracked) -> None:
        """Take out a request that nobody wants any more, waiting or running; the loop's ``drop``
        is what stops it and frees its slot.
        """
        if task in self._waiting:
            self._waiting.remove(task)
        elif task.request.id in self._running:
            self._leave(task)

    def _fits(self, task: Tracked) -> bool:
        room = self._positions - self._taken
        return len(self._running) < self._size and len(task.request.sequence) <= room

    def _leave(self, task: Tracked) -> None:
        self.requests.remove(task.request)
        del self._running[task.request.id]
        self._taken -= len(task.request.sequence)
