"""What EntropyCache's decision costs: entropy, choice and row selection, as a share of the time of
the partial steps they decide, on a random 0.5 B LLaDA. Run: ``python benchmarks/decision.py``.

Partial steps alone are counted, so the share is the largest there is: a full pass costs more and
its decision the same. A random network is never sure, so ``tau`` is out of reach and four tokens
are committed a step, about what a threshold of 0.9 commits on a trained one.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import common

from entropycache.config import GenerationConfig
from entropycache.engine import Engine
from entropycache.loop import decode
from entropycache.policies import EntropyCache

STEPS = 40


class Timed:
    """A policy whose time is counted."""

    def __init__(self, policy: EntropyCache) -> None:
        self.policy = policy
        self.seconds = 0.0

    def plan(self, *arguments: Any) -> Any:
        began = time.perf_counter()
        found = self.policy.plan(*arguments)
        self.seconds += time.perf_counter() - began
        return found

    def observe(self, *arguments: Any) -> None:
        began = time.perf_counter()
        self.policy.observe(*arguments)
        self.seconds += time.perf_counter() - began


def measure(engine: Engine, canvas: int, union: list[float]) -> dict[str, Any]:
    """Shares and times over the partial steps of one run at one canvas length."""
    config = GenerationConfig(gen_length=256, window=32, tokens_per_step=4)
    prompt = [i % 1000 for i in range(canvas - 256)]
    request = engine.track(0, prompt, config).request
    request.policy = timed = Timed(EntropyCache(tau=1e9, k=64))
    steps = decode([request], engine.runner)
    next(steps)  # the full pass
    shares, totals, decisions = [], [], []
    for _ in range(STEPS):
        timed.seconds = union[0] = 0.0
        began = time.perf_counter()
        step = next(steps)
        total = time.perf_counter() - began
        assert not step.full
        decision = timed.seconds + union[0]
        shares.append(decision / total)
        totals.append(total)
        decisions.append(decision)
    steps.close()
    return {
        "canvas": canvas,
        "partial_steps": STEPS,
        "rows_of_last_step": len(step.rows),
        "step_ms": 1e3 * statistics.median(totals),
        "decision_ms": 1e3 * statistics.median(decisions),
        "decision_percent_median": 100 * statistics.median(shares),
        "decision_percent_of_total": 100 * sum(decisions) / sum(totals),
    }


def main() -> None:
    """Measure at both lengths, on one engine."""
    engine = common.random_engine(common.HALF_BILLION)
    union = [0.0]
    common.timed_union(union)
    measure(engine, 512, union)  # warm-up
    found = [measure(engine, canvas, union) for canvas in (512, 4096)]
    common.save(
        "decision",
        "python benchmarks/decision.py",
        parameters=common.parameters(engine),
        dtype="bfloat16",
        runs=found,
    )


if __name__ == "__main__":
    main()
