"""Exact match of the embedded model on held-out problems, a number for each task. Run: ``python
benchmarks/accuracy.py --count 200``.

Decoding is plain: one token a step, no cache, block 32, gen_length 256. Early stop and batches only
change the cost: the text is the same without them. With ``--tasks`` the results of other tasks stay
if they come from the same weights.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from typing import Any

import common

from entropycache import load
from entropycache.io.problems import held_out, task_names
from entropycache.models.loading import locate
from entropycache.observers.statistics import wilson
from entropycache.training.evaluate import solved


def kept(digest: str) -> dict[str, Any]:
    """Earlier results by task, if they come from the weights of this ``digest``."""
    file = common.RESULTS / "accuracy.json"
    before = json.loads(file.read_text()) if file.exists() else {}
    return dict(before["tasks"]) if before.get("weights") == digest else {}


def main() -> None:
    """Read the options, decode, and save the results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--tasks", default=",".join(task_names()))
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--dtype", default="auto")
    options = parser.parse_args()
    engine = load(options.model, dtype=options.dtype)
    weights = hashlib.sha256((locate(options.model) / "model.safetensors").read_bytes())
    digest = weights.hexdigest()[:16]
    for task in options.tasks.split(","):
        problems = held_out(task)[: options.count]
        right = solved(engine, problems)
        result = {
            "problems": len(problems),
            "exact_match_percent": round(100 * right / len(problems), 1),
            "interval_95": wilson(right, len(problems)),
        }
        print(task, result, file=sys.stderr, flush=True)
        if options.model == "tiny":
            record(task, result, digest)


def record(task: str, result: dict[str, Any], digest: str) -> None:
    """Save a task's result beside those of other tasks with the same weights."""
    # After each task: a run that is interrupted keeps what it has.
    every = kept(digest) | {task: result}
    ordered = {name: every[name] for name in task_names() if name in every}
    command = "python benchmarks/accuracy.py --tasks TASKS --count PROBLEMS"
    common.save("accuracy", command, weights=digest, tasks=ordered)


if __name__ == "__main__":
    main()
