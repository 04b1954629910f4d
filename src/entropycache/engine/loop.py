"""The decoding loop: a generator of steps over a list of requests, which may grow while it runs.

It only passes windows, plans, scores and commits on: strategies and policies decide, the runner
computes.
"""

from __future__ import annotations

from collections.abc import Generator

from entropycache.core.steps import Commit, Plan, Step, Window
from entropycache.engine.request import Request
from entropycache.engine.runner import Pass, Runner
from entropycache.errors import NonFiniteLogitsError


def decode(requests: list[Request], runner: Runner) -> Generator[Step]:
    """Decode all requests together and yield each step, once its commit is in the canvas.

    Each pass makes one step of every live request. Requests may be added to the list while the
    generator runs. A request whose logits are NaN or infinite gets its ``error`` and leaves; the
    others go on. The slot of a request is released when it ends, and all slots when the generator
    is closed or abandoned.
    """
    record = runner.recorder.part
    try:
        # The list is read anew before each pass: callers add requests to it and remove them.
        while live := [r for r in requests if r.live]:
            with record("sampling"):
                windows = [r.window() for r in live]
            with record("decision"):
                plans = [r.policy.plan(r.sequence, w) for r, w in zip(live, windows, strict=True)]
            passes = runner.forward(live, plans)
            for request, window, plan, result in zip(live, windows, plans, passes, strict=True):
                # Asked again after the pass: whoever took the step of another request may have
                # cancelled this one meanwhile, and its slot is closed.
                if request.cancelled:
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
    """The step that a pass comes to: committed, applied and observed.

    ``None`` if the network failed for this request.
    """
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
    full = result.work == len(sequence)  # a mean over layers: only if each computed all positions
    rows, work = result.rows, result.work
    step = Step(request.id, sequence.steps, window, plan, result.scores, commit, rows, work, full)
    request.apply(step)
    with record("decision"):
        request.policy.observe(sequence, step)
    sequence.done = sequence.done or request.stopping.reached(sequence)
    # At once, so that the memory is there for the request that takes its place.
    if sequence.done:
        runner.close(request)
    return step


def cancel(request: Request, runner: Runner) -> None:
    """Take a request out of a running loop and release its slot; it makes no further step.

    Call it between two steps of the loop.
    """
    request.cancelled = True
    runner.close(request)
