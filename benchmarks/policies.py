"""Every cache policy on the embedded model in one run: same weights, problems, window and commit
rule. Run: ``python benchmarks/policies.py`` (100 problems), or with ``--shots 8 --plain --rules
threshold`` for long contexts beside plain decoding of the whole region.

*Deciding* is the time of a policy's ``plan``, ``observe`` and hooks of a pass, of the choice of
rows, and of attention weights beyond fused attention.
"""

from __future__ import annotations

import argparse
from typing import Any

import common

from entropycache import GenerationConfig, load
from entropycache.bench.cases import problem_cases
from entropycache.bench.comparison import Candidate
from entropycache.bench.report import numbers
from entropycache.config.generation import PLAIN
from entropycache.io.problems import DEFAULT_TASKS

POLICIES = (
    *("none", "entropy", "fast-prefix", "fast-dual", "d2:variant=released", "d2:variant=paper"),
    *("elastic:variant=released", "elastic:variant=paper", "dkv-decode", "dllm"),
)
RULES: dict[str, tuple[str, tuple[str, ...], dict[str, Any]]] = {
    "one": ("one token a step", POLICIES, {"tokens_per_step": 1, "block_length": 32}),
    "threshold": ("threshold 0.9", POLICIES, {"threshold": 0.9, "window": 32}),
    "blocks": (
        "threshold 0.9, blocks",
        ("none", "entropy", "fast-dual"),
        {"threshold": 0.9, "block_length": 32},
    ),
    "ordered": (
        "left to right",
        ("none", "dkv-greedy"),
        {"tokens_per_step": 1, "order": "left-to-right", "block_length": 32},
    ),
}
"""Title, policies and settings of each commit rule.

One token a step goes in blocks: end tokens are the surest, so a sliding window would commit those
at the end of the canvas before the answer, and nothing would stop early. Fast-dLLM's dual cache
keeps to the block of its full pass even under a sliding window, so EntropyCache is also shown in
blocks beside it. dKV-Cache-Greedy needs an order drawn in advance, and is shown beside no cache in
that order.
"""


def main() -> None:
    """Read the options, decode, and save the results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--tasks", default=",".join(DEFAULT_TASKS))
    parser.add_argument("--shots", type=int, default=0, help="worked examples in front of each")
    parser.add_argument("--plain", action="store_true", help="also decode the whole region plainly")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--rules", default=",".join(RULES), help=f"of {', '.join(RULES)}")
    options = parser.parse_args()
    tasks, asked = options.tasks.split(","), options.rules.split(",")
    if unknown := set(asked) - set(RULES):
        parser.error(f"unknown rules {', '.join(sorted(unknown))}; known: {', '.join(RULES)}")
    cases = problem_cases(tasks, options.count, options.shots)
    engine = load("tiny", dtype=options.dtype)
    candidates = [Candidate("plain", engine, PLAIN)] if options.plain else []
    for title, policies, settings in map(RULES.__getitem__, asked):
        candidates += [
            Candidate(
                f"{title}/{policy}", engine, GenerationConfig().merge(policy=policy, **settings)
            )
            for policy in policies
        ]
    rows = common.compared(candidates, cases)
    by_name = numbers(rows)
    for name, row in by_name.items():
        rule, _, _ = name.partition("/")
        base = by_name.get(f"{rule}/none", by_name[next(iter(by_name))])
        row["speed_up_over_no_cache"] = round(
            row["tokens_per_second"] / base["tokens_per_second"], 2
        )
    common.save(
        "policies"
        + (f"_{options.shots}_shot" if options.shots else "")
        + ("_plain" if options.plain else ""),
        problems=len(rows[0].done),
        tasks=tasks,
        shots=options.shots,
        rows=by_name,
    )


if __name__ == "__main__":
    main()
