"""What the benchmarks share: comparisons with a word of progress, and results as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from entropycache.bench.cases import problem_cases
from entropycache.bench.comparison import Candidate, Case, Result, interleave
from entropycache.io.environment import command
from entropycache.io.problems import HeldOut
from entropycache.io.results import write_json

RESULTS = Path(__file__).parent / "results"


def compared(candidates: Sequence[Candidate], cases: Sequence[Case]) -> list[Result]:
    """All candidates on all cases, telling speeds on the way; after Ctrl-C those that all did."""
    rows: list[Result] = []
    try:
        for i, rows in enumerate(interleave(candidates, cases), 1):
            speeds = ", ".join(f"{row.candidate.name} {row.speed:.1f}" for row in rows)
            print(f"{i}/{len(cases)} tokens/s: {speeds}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        complete = min(len(row.parts) for row in rows)
        for row in rows:
            del row.cases[complete:], row.done[complete:], row.parts[complete:]
    return rows


def problems(tasks: Sequence[str], count: int) -> list[HeldOut]:
    """``count`` held-out problems, as many of each task."""
    return [case.problem for case in problem_cases(tasks, count) if case.problem]


def save(name: str, told: str | None = None, **numbers: Any) -> None:
    """Write ``results/name.json`` with the command (``told`` where several made it) and the
    machine, and print it.
    """
    RESULTS.mkdir(exist_ok=True)
    typed = told or command("python", f"benchmarks/{Path(sys.argv[0]).name}")
    write_json(RESULTS / f"{name}.json", {"command": typed, **numbers})
    print(json.dumps(numbers, indent=1))


__all__ = ["RESULTS", "compared", "problems", "save"]
