"""One request on its way through the engine: canvas, policy, strategy, and the output so far.

A request knows neither the network nor the K/V store; its ``slot`` is a number that the runner
assigns.
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

    ``id`` names it in steps. ``started`` is the time at which it began to run, in seconds of
    ``time.perf_counter``. ``error`` is set when the loop aborts it, ``cancelled`` when nobody wants
    its answer any more.
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
        """True while there is something left to decode."""
        return not (self.sequence.done or self.cancelled) and self.error is None

    def window(self) -> Window:
        """Masked positions that the next step may commit."""
        return self.strategy.window(self.sequence, self.stopping.cut)

    def apply(self, step: Step) -> None:
        """Write the step's commit into the canvas, and add the step to the completion."""
        self.sequence.apply(step.commit)
        self.stopping.note(step.commit)
        completion = self.completion
        completion.forwards += 1
        completion.full_passes += step.full
        # Whole numbers stay whole, so that results print 512 and not 512.0.
        completion.rows_computed += int(step.work) if step.work.is_integer() else step.work
        completion.commits.append((step.commit.positions - self.sequence.start).tolist())

    def complete(self) -> Completion:
        """The completion of a request that has ended."""
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
            # Masks that early stop left over read like the padding that a whole decoding commits.
            region[region == canvas.mask_id] = min(self.stopping.tokenizer.end_ids)
        done.token_ids = region.tolist()
        return done

    def complete_infilled(self, text: str) -> Completion:
        """The completion of a canvas whose masks were filled in; ``text`` is the whole canvas.

        ``token_ids`` are those of the whole canvas too, and ``commits`` count from its first
        position.
        """
        done, canvas = self.complete(), self.sequence
        done.answer_tokens = sum(len(step) for step in done.commits)
        done.prompt_tokens = len(canvas) - done.answer_tokens
        done.tokens_per_second = done.answer_tokens / done.seconds if done.seconds else 0.0
        done.commits = [[canvas.start + position for position in step] for step in done.commits]
        done.token_ids, done.text, done.finish_reason = canvas.canvas.tolist(), text, "stop"
        return done
