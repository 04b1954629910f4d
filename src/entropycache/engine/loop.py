"""The decoding loop: a generator of steps over a list of requests, which may grow while it runs.

It knows windows, plans, passes and commits by name only; policies and strategies decide, the runner
computes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from entropycache.core.sequence import Sequence
from entropycache.core.steps import Commit, Plan, Step, Window
from entropycache.engine.batch import Job
from entropycache.engine.runner import Pass, Runner
from entropycache.engine.scoring import Sampler
from entropycache.errors import NonFiniteLogitsError
from entropycache.policies.base import Policy
from entropycache.strategies.base import Strategy


@dataclass
class Request:
    """One sequence to decode, and how. ``finished`` is asked after each commit whether the answer
    is complete; ``error`` is set where the request was aborted, ``dropped`` where nobody wants it
    any more.
    """

    id: int
    sequence: Sequence
    policy: Policy
    strategy: Strategy
    sampler: Sampler
    finished: Callable[[Sequence], bool] = lambda sequence: False
    slot: int | None = None
    error: NonFiniteLogitsError | None = field(default=None)
    dropped: bool = False

    @property
    def live(self) -> bool:
        """Whether there is something left to do."""
        return not (self.sequence.done or self.dropped) and self.error is None


def decode(requests: list[Request], runner: Runner) -> Generator[Step]:
    """Decode all requests together, a step of every live one a pass; slots are released also when
    abandoned.
    """
    try:
        while live := [r for r in requests if r.live]:
            windows = [r.strategy.window(r.sequence) for r in live]
            plans = [r.policy.plan(r.sequence, w) for r, w in zip(live, windows, strict=True)]
            jobs = [
                Job(r.sequence, _slot(r, runner), r.sampler, r.policy, p)
                for r, p in zip(live, plans, strict=True)
            ]
            for r, window, plan, result in zip(
                live, windows, plans, runner.forward(jobs), strict=True
            ):
                if r.dropped:  # since the pass began
                    continue
                if result.scores is None:
                    _abort(r, runner)
                    continue
                commit = r.strategy.choose(r.sequence, window, plan.predict, result.scores)
                index = r.sequence.steps
                r.sequence.apply(commit)
                step = _step(r, index, window, plan, result, commit)
                r.policy.observe(r.sequence, step)
                r.sequence.done = r.sequence.done or r.finished(r.sequence)
                if r.sequence.done:
                    _release(r, runner)
                yield step
    finally:
        for r in requests:
            _release(r, runner)


def drop(request: Request, runner: Runner) -> None:
    """Take a request out of a running loop, between two of its steps: it makes no other, and its
    slot is free.
    """
    request.dropped = True
    _release(request, runner)


def _step(
    request: Request, index: int, window: Window, plan: Plan, result: Pass, commit: Commit
) -> Step:
    assert result.scores is not None
    full = result.work == len(request.sequence)
    return Step(
        request.id, index, window, plan, result.scores, commit, result.rows, result.work, full
    )


def _slot(request: Request, runner: Runner) -> int:
    if request.slot is None:
        request.slot = runner.open(len(request.sequence), request.policy)
    return request.slot


def _release(request: Request, runner: Runner) -> None:
    if request.slot is not None:
        runner.store.close(request.slot)
        request.slot = None


def _abort(request: Request, runner: Runner) -> None:
    step = request.sequence.steps
    request.error = NonFiniteLogitsError(
        f"request {request.id}: the network returned NaN or infinite logits at step {step}"
    )
    _release(request, runner)
