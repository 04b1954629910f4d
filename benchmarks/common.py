"""Parts that the benchmarks share: comparisons that print their progress, and results as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# Before torch is imported. Idle threads that spin would take the time of a server or of another
# process on a machine with few cores.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from entropycache.bench.cases import problem_cases
from entropycache.bench.comparison import Candidate, Case, Result, interleave
from entropycache.io.environment import command
from entropycache.io.problems import HeldOut
from entropycache.io.results import write_json

RESULTS = Path(__file__).parent / "results"


def compared(candidates: Sequence[Candidate], cases: Sequence[Case]) -> list[Result]:
    """The results of all candidates on all cases; prints their speeds after each case.

    After Ctrl-C they hold the cases that every candidate has decoded. Raises what ``interleave``
    raises.
    """
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
    """``count`` held-out problems, as many of each task. Raises what ``problem_cases`` raises."""
    return [case.problem for case in problem_cases(tasks, count) if case.problem]


def save(name: str, typed: str | None = None, **numbers: Any) -> None:
    """Write ``numbers`` to ``results/name.json`` with the command and the machine, and print them.

    ``typed`` is the command to record if several runs made the file.
    """
    RESULTS.mkdir(exist_ok=True)
    made_by = typed or command("python", f"benchmarks/{Path(sys.argv[0]).name}")
    write_json(RESULTS / f"{name}.json", {"command": made_by, **numbers})
    print(json.dumps(numbers, indent=1))


__all__ = ["RESULTS", "compared", "problems", "save"]
