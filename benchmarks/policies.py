"""Every cache policy on the embedded model: same weights, problems, window and commit rule, in one
run. Run: ``python benchmarks/policies.py`` (100 problems).

Each problem is decoded by every policy before the next problem, in rotating order. *Deciding* is
the time in ``plan`` and ``observe``, in a policy's looks into the pass, for attention weights what
they take beyond fused attention, and for dLLM-Cache the choice of drifted rows.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import common

from entropycache import Completion, Engine, GenerationConfig, load, packing
from entropycache.attention import attention
from entropycache.features import FeaturePass
from entropycache.loop import decode
from entropycache.packing import Packed
from entropycache.problems import HeldOut

TASKS = ("aiw", "leg_counting", "products")
POLICIES = (
    *("none", "entropy", "fast-prefix", "fast-dual", "d2:variant=released", "d2:variant=paper"),
    *("elastic:variant=released", "elastic:variant=paper", "dkv-decode", "dllm"),
)
RULES = {"one token a step": {"tokens_per_step": 1}, "threshold 0.9": {"threshold": 0.9}}
ORDERED = {"tokens_per_step": 1, "order": "left-to-right"}
"""dKV-Cache-Greedy needs an order drawn in advance; it is shown beside plain decoding in it."""


@dataclass
class Clock:
    """Seconds spent deciding, and seconds that only the measurement took."""

    deciding: float = 0.0
    measuring: float = 0.0
    running: bool = False

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, its time counted as deciding."""

        def wrapped(*arguments: Any, **options: Any) -> Any:
            if self.running:  # called from another timed function
                return function(*arguments, **options)
            self.running, began = True, time.perf_counter()
            found = function(*arguments, **options)
            self.running = False
            self.deciding += time.perf_counter() - began
            return found

        return wrapped

    @contextmanager
    def inside_passes(self) -> Iterator[None]:
        """Count what policies that watch a pass add to it."""
        weights, mix, drifted = packing.attention_weights, packing.mix, FeaturePass._drifted
        arrange = Packed.arrange
        last: list[Any] = []

        def watched(q: Any, keys: Any) -> Any:
            last[:] = (q, keys)
            return weights(q, keys)

        def mixed(found: Any, values: Any) -> Any:
            result = self.timed(mix)(found, values)
            began = time.perf_counter()
            attention(*last, values)  # what fused attention would have taken
            fused = time.perf_counter() - began
            self.deciding -= fused
            self.measuring += fused
            return result

        packing.attention_weights, packing.mix = self.timed(watched), mixed
        FeaturePass._drifted = self.timed(drifted)  # type: ignore[method-assign]
        Packed.arrange = self.timed(arrange)  # type: ignore[method-assign]
        try:
            yield
        finally:
            packing.attention_weights, packing.mix = weights, mix
            FeaturePass._drifted = drifted  # type: ignore[method-assign]
            Packed.arrange = arrange  # type: ignore[method-assign]


@dataclass
class Row:
    """What one policy did under one rule so far."""

    config: GenerationConfig
    done: list[Completion] = field(default_factory=list)
    solved: list[bool] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    deciding: list[float] = field(default_factory=list)

    def add(self, engine: Engine, problem: HeldOut) -> None:
        """Decode one problem."""
        clock = Clock()
        task = engine.track(0, problem.chat, self.config)
        policy: Any = task.request.policy
        for name in ("plan", "observe", "layer", "tracked"):
            if hasattr(policy, name):
                setattr(policy, name, clock.timed(getattr(policy, name)))
        with clock.inside_passes():
            for step in decode([task.request], engine.runner):
                task.note(step)
        completion = task.close()
        assert completion.error is None, completion.error
        self.done.append(completion)
        self.solved.append(problem.solved_by(completion.text))
        self.seconds.append(completion.seconds - clock.measuring)
        self.deciding.append(clock.deciding)

    def numbers(self, plain: Row) -> dict[str, Any]:
        """Accuracy, speed, work, and the share of deciding."""
        tokens = sum(d.answer_tokens for d in self.done)
        return {
            "accuracy_percent": round(100 * statistics.mean(self.solved), 1),
            "same_text_as_plain_percent": round(
                100
                * statistics.mean(
                    p.text == d.text for p, d in zip(plain.done, self.done, strict=True)
                ),
                1,
            ),
            "tokens_per_second": round(self.speed(), 1),
            "speed_up": round(self.speed() / plain.speed(), 2),
            "rows_per_token": round(sum(d.rows_computed for d in self.done) / tokens, 1),
            "forwards": round(statistics.mean(d.forwards for d in self.done), 2),
            "full_passes": round(statistics.mean(d.full_passes for d in self.done), 2),
            "deciding_percent": round(100 * sum(self.deciding) / sum(self.seconds), 2),
        }

    def speed(self) -> float:
        """Tokens before the end token over the time of all problems."""
        return sum(d.answer_tokens for d in self.done) / sum(self.seconds)


def main() -> None:
    """Read the options, run, save."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--tasks", default=",".join(TASKS))
    options = parser.parse_args()
    tasks = options.tasks.split(",")
    problems = common.problems(tasks, options.count)
    configs = {(r, p): {"policy": p, **rule} for r, rule in RULES.items() for p in POLICIES}
    configs |= {("left to right", p): {"policy": p, **ORDERED} for p in ("none", "dkv-greedy")}
    rows = {key: Row(GenerationConfig.of(window=32, **c)) for key, c in configs.items()}
    engine, names = load("tiny"), list(rows)
    for row in rows.values():  # warm-up, not counted
        engine.generate(problems[0].chat, row.config)
    for i, problem in enumerate(problems):
        for key in names[i % len(names) :] + names[: i % len(names)]:
            rows[key].add(engine, problem)
        print(f"{i + 1}/{len(problems)}", file=sys.stderr, flush=True)
    found: dict[str, dict[str, Any]] = {}
    for (rule, policy), row in rows.items():
        found.setdefault(rule, {})[policy] = row.numbers(rows[rule, "none"])
    common.save(
        "policies",
        " ".join(["python benchmarks/policies.py", *sys.argv[1:]]),
        problems=len(problems),
        tasks=tasks,
        dtype=common.dtype_of(engine),
        rules=found,
    )


if __name__ == "__main__":
    main()
