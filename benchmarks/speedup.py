"""EntropyCache against plain decoding on the embedded model, what each ingredient gives, and the
sweep that the default tau was chosen from. Run: ``python benchmarks/speedup.py`` (about half an
hour on two cores) and ``python benchmarks/speedup.py --sweep``.

Every problem is decoded under every configuration before the next problem, in rotating order, so
that a noisy machine favours none. Speed is tokens before the end token over wall time, the text
itself decoded and not the padding. Each configuration runs in the dtype that is faster for it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import dataclass, field

import common
import torch

from entropycache import Completion, Engine, GenerationConfig, load
from entropycache.models.loading import native_bfloat16
from entropycache.problems import HeldOut

TASKS = ("aiw", "leg_counting", "products")
TAUS = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 99.0)

PLAIN = GenerationConfig(policy="none", block_length=32, tokens_per_step=1, early_stop=False)
SEVERAL = {"window": 32, "threshold": 0.9}
CONFIGS = {
    "plain": PLAIN,
    "cache alone": GenerationConfig.of(PLAIN, policy="entropy", window=32),
    "several tokens alone": GenerationConfig.of(PLAIN, **SEVERAL),
    "early stop alone": GenerationConfig.of(PLAIN, early_stop=True),
    "all together": GenerationConfig.of(PLAIN, policy="entropy", early_stop=True, **SEVERAL),
    "all but the cache": GenerationConfig.of(PLAIN, early_stop=True, **SEVERAL),
    "all but several tokens": GenerationConfig.of(
        PLAIN, policy="entropy", early_stop=True, window=32
    ),
    "all but early stop": GenerationConfig.of(PLAIN, policy="entropy", **SEVERAL),
}


@dataclass
class Row:
    """What one configuration did on all problems so far."""

    config: GenerationConfig
    dtype: str
    done: list[Completion] = field(default_factory=list)
    solved: list[bool] = field(default_factory=list)

    def add(self, engine: Engine, problem: HeldOut) -> None:
        """Decode one problem."""
        completion = engine.generate(problem.chat, self.config)
        assert isinstance(completion, Completion)
        self.done.append(completion)
        self.solved.append(problem.solved_by(completion.text))

    def numbers(self, plain: Row) -> dict[str, object]:
        """Accuracy, speed and work, and the speed-up over plain decoding."""
        speed, base = self.speed(), plain.speed()
        ratios = [
            p.seconds / d.seconds * (d.answer_tokens / p.answer_tokens)
            for p, d in zip(plain.done, self.done, strict=True)
            if p.answer_tokens
        ]
        same = [p.text == d.text for p, d in zip(plain.done, self.done, strict=True)]
        return {
            "dtype": self.dtype,
            "accuracy_percent": 100 * sum(self.solved) / len(self.solved),
            "same_text_as_plain_percent": 100 * sum(same) / len(same),
            "tokens_per_second": round(speed, 1),
            "speed_up": round(speed / base, 2),
            "speed_up_median_of_problems": round(statistics.median(ratios), 2),
            "forwards": round(statistics.mean(d.forwards for d in self.done), 2),
            "full_passes": round(statistics.mean(d.full_passes for d in self.done), 2),
            "rows_per_token": round(
                sum(d.rows_computed for d in self.done) / sum(d.answer_tokens for d in self.done), 1
            ),
        }

    def by_task(self, problems: list[HeldOut]) -> dict[str, str]:
        """Solved of how many, for each task."""
        found: dict[str, list[bool]] = {}
        for problem, solved in zip(problems, self.solved, strict=True):
            found.setdefault(problem.task, []).append(solved)
        return {task: f"{sum(s)} of {len(s)}" for task, s in found.items()}

    def speed(self) -> float:
        """Tokens before the end token over the time of all problems."""
        return sum(d.answer_tokens for d in self.done) / sum(d.seconds for d in self.done)


def faster(engines: dict[str, Engine], config: GenerationConfig, problems: list[HeldOut]) -> str:
    """The dtype in which a configuration is faster on a few problems."""
    if len(engines) == 1:
        return next(iter(engines))
    rows = {dtype: Row(config, dtype) for dtype in engines}
    for problem in problems:
        for dtype, row in rows.items():
            row.add(engines[dtype], problem)
    return max(rows, key=lambda dtype: rows[dtype].speed())


def run(configs: dict[str, GenerationConfig], problems: list[HeldOut]) -> dict[str, Row]:
    """All problems under all configurations, interleaved."""
    native = native_bfloat16(torch.device("cpu"))  # elsewhere it is a hundred times slower
    dtypes = ("bfloat16", "float32") if native else ("float32",)
    engines = {dtype: load("tiny", dtype=dtype) for dtype in dtypes}
    rows = {
        name: Row(config, faster(engines, config, problems[:1])) for name, config in configs.items()
    }
    names = list(rows)
    for i, problem in enumerate(problems):
        for name in names[i % len(names) :] + names[: i % len(names)]:
            rows[name].add(engines[rows[name].dtype], problem)
        speeds = " ".join(f"{name} {row.speed():.0f}" for name, row in rows.items())
        print(f"{i + 1}/{len(problems)} tokens/s: {speeds}", file=sys.stderr)
    return rows


def main() -> None:
    """Read the options, run, save."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--removed", action="store_true", help="also all but one ingredient each")
    options = parser.parse_args()
    tasks = options.tasks.split(",")
    problems = common.problems(tasks, options.count)
    configs = {n: c for n, c in CONFIGS.items() if options.removed or "all but" not in n}
    if options.sweep:
        best = CONFIGS["all together"]
        configs = {"all but the cache": CONFIGS["all but the cache"]}
        configs |= {
            f"tau {t:g}": GenerationConfig.of(best, policy=f"entropy:tau={t}") for t in TAUS
        }
    rows = run(configs, problems)
    plain = next(iter(rows.values()))
    common.save(
        "sweep" if options.sweep else "speedup",
        " ".join(["python benchmarks/speedup.py", *sys.argv[1:]]),
        problems=len(problems),
        tasks=tasks,
        relative_to=next(iter(rows)),
        rows={name: row.numbers(plain) for name, row in rows.items()},
        correct_by_task={name: row.by_task(problems) for name, row in rows.items()},
    )


if __name__ == "__main__":
    main()
