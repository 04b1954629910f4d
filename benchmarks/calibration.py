"""A test of calibration: agreement and cost of a calibrated setting on problems it has not seen.
Run: ``python benchmarks/calibration.py``.

``calibrate`` sees some held-out problems of the embedded model, and the setting decodes others.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import asdict

import common

from entropycache import GenerationConfig, load
from entropycache.analysis.calibrate import agreement, calibrate
from entropycache.io.problems import DEFAULT_TASKS, held_out


def main() -> None:
    """Calibrate on ``--count`` problems of each task and decode the next ``--unseen``."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--unseen", type=int, default=60)
    parser.add_argument("--tasks", default=",".join(DEFAULT_TASKS))
    parser.add_argument("--targets", default="0.99,0.95")
    parser.add_argument("--dtype", default="auto")
    options = parser.parse_args()
    engine, config = load("tiny", dtype=options.dtype), GenerationConfig()
    tasks = options.tasks.split(",")
    seen = [p.chat for t in tasks for p in held_out(t)[: options.count]]
    last = options.count + options.unseen
    unseen = [p.chat for t in tasks for p in held_out(t)[options.count : last]]
    plain = engine.generate(unseen, config, policy="none")
    assert isinstance(plain, list)
    rows = {}
    for target in map(float, options.targets.split(",")):
        calibration = calibrate(engine, seen, config, target)
        done = engine.generate(unseen, config, policy=calibration.policy)
        assert isinstance(done, list)
        agreed = [agreement(a, b) for a, b in zip(plain, done, strict=True)]
        share = sum(d.rows_computed for d in done) / sum(d.rows_computed for d in plain)
        rows[f"{target:g}"] = {
            "policy": calibration.policy,
            "seen": asdict(calibration.chosen),
            "unseen_agreement": round(statistics.mean(agreed), 4),
            "unseen_rows_share": round(share, 4),
            "holds": statistics.mean(agreed) >= target,
        }
        print(target, rows[f"{target:g}"], file=sys.stderr, flush=True)
    common.save(
        "calibration",
        tasks=tasks,
        prompts_seen=len(seen),
        prompts_unseen=len(unseen),
        targets=rows,
    )


if __name__ == "__main__":
    main()
