"""One request on its way through the engine: its canvas, how it is decoded, and its output so far.

A request knows neither the network nor the K/V store; ``slot`` is a number that the runner gives
it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from entropycache.core.sequence import Sequence
from entropycache.core.steps import Step, Window
from entropycache.engine.output import Completion
from entropycache.engine.scoring import Sampler
from entropycache.engine.stopping import StopCriteria
from entropycache.errors import NonFiniteLogitsError
from entropycache.policies.base import Policy
from entropycache.strategies.base import Strategy


@dataclass(eq=False)
class Request:
    """One sequence to decode, and everything that belongs to it alone.

    ``id`` names it in steps. ``error`` is set where it was aborted, ``cancelled`` where nobody
    wants it any more. ``started`` is when it began to run, in seconds of ``time.perf_counter``.
    """

    id: int
    sequence: Sequence
    policy: Policy
    strategy: Strategy
    sampler: Sampler
    stopping: StopCriteria
    completion: Completion = field(default_factory=Completion)
    started: float = field(default_factory=time.perf_counter)
    slot: int | None = None
    error: NonFiniteLogitsError | None = None
    cancelled: bool = False

    @property
    def live(self) -> bool:
        """Whether there is something left to do."""
        return not (self.sequence.done or self.cancelled) and self.error is None

    def window(self) -> Window:
        """The masked positions that the next step may commit."""
        return self.strategy.window(self.sequence, self.stopping.cut)

    def apply(self, step: Step) -> None:
        """Write the step's commit into the canvas, and count the step."""
        self.sequence.apply(step.commit)
        self.stopping.note(step.commit)
        done = self.completion
        done.forwards += 1
        done.full_passes += step.full
        done.rows_computed += int(step.work) if step.work.is_integer() else step.work
        done.commits.append((step.commit.positions - self.sequence.start).tolist())

    def complete(self) -> Completion:
        """The completion, once the request has ended."""
        done, canvas = self.completion, self.sequence
        done.seconds = time.perf_counter() - self.started
        done.prompt_tokens = canvas.given
        done.answer_tokens = len(self.stopping.answer(canvas))
        done.tokens_per_second = done.answer_tokens / done.seconds if done.seconds else 0.0
        done.text, done.finish_reason = self.stopping.finish(canvas)
        region = canvas.canvas[canvas.start :].copy()
        if self.error is not None:
            done.error, done.finish_reason = str(self.error), "error"
        elif self.stopping.tokenizer.end_ids:
            region[region == canvas.mask_id] = min(self.stopping.tokenizer.end_ids)
        done.token_ids = region.tolist()
        return done

    def complete_infilled(self, text: str) -> Completion:
        """The completion of a canvas whose masks were filled in: all of it, positions counted from
        its first. ``text`` is the whole canvas as text.
        """
        done, canvas = self.complete(), self.sequence
        done.answer_tokens = sum(len(step) for step in done.commits)
        done.prompt_tokens = len(canvas) - done.answer_tokens
        done.tokens_per_second = done.answer_tokens / done.seconds if done.seconds else 0.0
        done.commits = [[canvas.start + position for position in step] for step in done.commits]
        done.token_ids, done.text, done.finish_reason = canvas.canvas.tolist(), text, "stop"
        return done
