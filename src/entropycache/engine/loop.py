"""The decoding loop: a generator of steps over a list of requests, which may grow while it runs.

It knows windows, plans, passes and commits by name only: strategies and policies decide, the runner
computes.
"""

from __future__ import annotations

from collections.abc import Generator

from entropycache.core.steps import Commit, Plan, Step, Window
from entropycache.engine.request import Request
from entropycache.engine.runner import Pass, Runner
from entropycache.errors import NonFiniteLogitsError


def decode(requests: list[Request], runner: Runner) -> Generator[Step]:
    """Decode all requests together: each pass makes a step of every live request.

    The list is read anew before each pass, so that requests may join. A request whose logits are
    NaN or infinite gets its ``error`` and leaves; the others go on. Slots of the store are released
    as requests end, and all of them when the generator is closed or abandoned.
    """
    record = runner.recorder.part
    try:
        while live := [r for r in requests if r.live]:
            with record("sampling"):
                windows = [r.window() for r in live]
            with record("decision"):
                plans = [r.policy.plan(r.sequence, w) for r, w in zip(live, windows, strict=True)]
            passes = runner.forward(live, plans)
            for request, window, plan, result in zip(live, windows, plans, passes, strict=True):
                if request.cancelled:  # since the pass began, by whoever took an earlier step
                    continue
                step = _step(request, window, plan, result, runner)
                if step is not None:
                    yield step
    finally:
        for request in requests:
            runner.close(request)


def _step(
    request: Request, window: Window, plan: Plan, result: Pass, runner: Runner
) -> Step | None:
    """Commit, apply and observe; ``None`` where the pass failed for this request."""
    record, sequence = runner.recorder.part, request.sequence
    if result.scores is None:
        request.error = NonFiniteLogitsError(
            f"request {request.id}: the network returned NaN or infinite logits at step "
            f"{sequence.steps}"
        )
        runner.close(request)
        return None
    with record("sampling"):
        commit: Commit = request.strategy.choose(sequence, window, plan.predict, result.scores)
    full = result.work == len(sequence)
    rows, work = result.rows, result.work
    step = Step(request.id, sequence.steps, window, plan, result.scores, commit, rows, work, full)
    request.apply(step)
    with record("decision"):
        request.policy.observe(sequence, step)
    sequence.done = sequence.done or request.stopping.reached(sequence)
    if sequence.done:
        runner.close(request)
    return step


def cancel(request: Request, runner: Runner) -> None:
    """Take a request out of a running loop, between two of its steps: it makes no other, and its
    slot is free.
    """
    request.cancelled = True
    runner.close(request)
