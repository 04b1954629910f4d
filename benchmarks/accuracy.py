"""Exact match of the embedded model on held-out problems, a number a task, by plain decoding (one
token a step, no cache, block 32, gen_length 256). Run: ``python benchmarks/accuracy.py --count
200``.

Early stop and batches change the cost alone: the text is the same without them. With ``--tasks``
the results of other tasks stay, as long as they come from the same weights.
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
    """What was found before with these weights, by task."""
    file = common.RESULTS / "accuracy.json"
    before = json.loads(file.read_text()) if file.exists() else {}
    return dict(before["tasks"]) if before.get("weights") == digest else {}


def main() -> None:
    """Read the options, decode, save."""
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
        found = {
            "problems": len(problems),
            "exact_match_percent": round(100 * right / len(problems), 1),
            "interval_95": wilson(right, len(problems)),
        }
        print(task, found, file=sys.stderr, flush=True)
        if options.model == "tiny":
            record(task, found, digest)


def record(task: str, found: dict[str, Any], digest: str) -> None:
    """Put a task's result beside those of the same weights, at once."""
    every = kept(digest) | {task: found}
    ordered = {name: every[name] for name in task_names() if name in every}
    command = "python benchmarks/accuracy.py --tasks TASKS --count PROBLEMS"
    common.save("accuracy", command, weights=digest, tasks=ordered)


if __name__ == "__main__":
    main()
