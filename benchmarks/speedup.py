"""EntropyCache against plain decoding on the embedded model, the gain of each ingredient, and the
sweep that the default tau was chosen from. Run: ``python benchmarks/speedup.py`` (the better part
of an hour on two cores), ``python benchmarks/speedup.py --parts`` (twice as long a problem) and
``python benchmarks/speedup.py --sweep``.

Speed is the number of tokens before the end token over wall time, so padding does not count. Each
configuration runs in the dtype that is faster for it, a sweep in that of its first.
"""

from __future__ import annotations

import argparse

import common
import torch

from entropycache import Engine, GenerationConfig, load
from entropycache.bench.cases import problem_cases
from entropycache.bench.comparison import Candidate, Case, Result
from entropycache.bench.report import numbers
from entropycache.config.generation import PLAIN
from entropycache.io.problems import DEFAULT_TASKS, held_out
from entropycache.models.loading import native_bfloat16

TAUS = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 99.0)

SEVERAL = {"window": 32, "threshold": 0.9}
ALL = PLAIN.merge(policy="entropy", early_stop=True, **SEVERAL)
NO_CACHE = ALL.merge(policy="none")
MAIN = {"plain": PLAIN, "all together": ALL, "all but the cache": NO_CACHE}
ALONE = {
    "cache alone": PLAIN.merge(policy="entropy"),
    "several tokens alone": PLAIN.merge(**SEVERAL),
    "early stop alone": PLAIN.merge(early_stop=True),
}
REMOVED = {
    "all but several tokens": PLAIN.merge(policy="entropy", early_stop=True, window=32),
    "all but early stop": PLAIN.merge(policy="entropy", **SEVERAL),
}


def faster(engines: list[Engine], name: str, config: GenerationConfig, case: Case) -> Candidate:
    """The configuration on the engine that decodes ``case`` faster: the best of two runs each.

    The case should not be one that is counted later.
    """
    rows = [Result(Candidate(name, engine, config, model="tiny")) for engine in engines]
    for _ in range(2):
        for row in rows:
            row.add(case)
    return min(rows, key=lambda row: min(done.seconds for done in row.done)).candidate


def main() -> None:
    """Read the options, decode, and save the results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--tasks", default=",".join(DEFAULT_TASKS))
    parser.add_argument("--shots", type=int, default=0, help="worked examples in front of each")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--sweep", action="store_true", help="a row each tau instead")
    kind.add_argument("--parts", action="store_true", help="also each ingredient alone")
    kind.add_argument("--removed", action="store_true", help="also all but one ingredient each")
    options = parser.parse_args()
    tasks = options.tasks.split(",")
    cases = problem_cases(tasks, options.count, options.shots)
    configs = MAIN | (ALONE if options.parts else REMOVED if options.removed else {})
    if options.sweep:
        configs = {"all but the cache": NO_CACHE}
        configs |= {f"tau {t:g}": ALL.merge(policy=f"entropy:tau={t}") for t in TAUS}
    native = native_bfloat16(torch.device("cpu"))  # elsewhere float32 is faster
    engines = [load("tiny", dtype=d) for d in (("bfloat16", "float32") if native else ("float32",))]
    tried = Case(held_out(tasks[0])[-1].chat)
    if options.sweep:  # one dtype for all, so that the cache is the only difference
        first, config = next(iter(configs.items()))
        engines = [faster(engines, first, config, tried).engine]
    rows = common.compared([faster(engines, n, c, tried) for n, c in configs.items()], cases)
    name = "sweep" if options.sweep else "speedup"
    name += "_parts" if options.parts else "_removed" if options.removed else ""
    common.save(
        name + (f"_{options.shots}_shot" if options.shots else ""),
        problems=len(rows[0].done),
        tasks=tasks,
        shots=options.shots,
        rows=numbers(rows),
        correct_by_task={row.candidate.name: row.by_group() for row in rows},
    )


if __name__ == "__main__":
    main()
