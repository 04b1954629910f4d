"""A cache policy of your own: recompute everything when the surest token just committed was unsure,
otherwise the window and its left neighbours.

    python examples/custom_policy.py
    cd examples && entropycache generate --chat --prompt "Solve for t: 3*t = 12" \
        --policy custom_policy:Hesitant:below=0.8
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from entropycache.core.sequence import Sequence
from entropycache.core.steps import Plan, Reason, Step, Window
from entropycache.policies import Policy, register


@dataclass
class Hesitant(Policy):
    """Its fields are its options: ``hesitant:below=0.8,neighbours=16``."""

    below: float = 0.9
    neighbours: int = 16
    surest: float = field(default=0.0, init=False)

    def plan(self, sequence: Sequence, window: Window) -> Plan:
        """Before each pass: what to predict, what to recompute, and why."""
        everything = np.arange(len(sequence), dtype=np.int64)
        if not sequence.steps:  # nothing is cached yet
            return Plan(window.positions, everything, Reason.FIRST)
        if self.surest < self.below:
            return Plan(window.positions, everything, Reason.STALE)
        first = int(window.positions[0])
        left = np.arange(max(0, first - self.neighbours), first, dtype=np.int64)
        return Plan(window.positions, np.union1d(left, window.positions), Reason.PARTIAL)

    def observe(self, sequence: Sequence, step: Step) -> None:
        """After each commit: take note."""
        confidence = step.scores.confidence[step.commit.chosen]
        self.surest = float(confidence.max()) if len(confidence) else 0.0


if __name__ == "__main__":
    from entropycache import load

    register("hesitant", Hesitant)
    engine = load("tiny")
    question = [{"role": "user", "content": "Solve for t: 3*t = 12"}]
    for policy in ("none", "entropy", "hesitant", "hesitant:below=0.5"):
        done = engine.generate(question, policy=policy)
        print(f"{policy:20} {done.forwards:3} passes, {done.full_passes:2} full: {done.text!r}")
