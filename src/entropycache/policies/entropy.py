"""EntropyCache (arXiv 2603.18489): recompute everything after an uncertain commit, else little.

The largest entropy among the tokens just committed stands for the drift of the cached keys and
values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from entropycache.core.sequence import Sequence
from entropycache.core.steps import Plan, Reason, Step, Window
from entropycache.errors import OptionError
from entropycache.policies.base import About, Policy, everything


@dataclass
class EntropyCache(Policy):
    """Recompute everything when E > ``tau`` (nats), else the window and ``k`` recent positions.

    E is the largest entropy among the tokens just committed. The recent positions are the most
    recently committed ones. A step that commits nothing leaves E at minus infinity, and a partial
    pass follows.

    ``signal`` is for comparisons: ``max`` is the method, ``mean`` takes the mean entropy of the
    commit, and ``confidence`` takes 1 minus its smallest confidence; ``tau`` bounds that number.
    """

    tau: float = 1.0
    k: int = 64
    signal: str = "max"
    about: ClassVar[About] = About(
        "EntropyCache, arXiv 2603.18489",
        "the window and the k last commits; everything where the last commit was uncertain",
        "entropy of the committed tokens, from numbers at hand",
    )
    staleness: float = field(default=np.inf, init=False)

    def __post_init__(self) -> None:
        if np.isnan(self.tau):
            raise OptionError("entropy: tau must be a number of nats, not nan")
        if self.k < 0:
            raise OptionError(f"entropy: k must be 0 or more positions, not {self.k}")
        if self.signal not in SIGNALS:
            raise OptionError(f"entropy: signal must be {', '.join(SIGNALS)}, not {self.signal!r}")

    def plan(self, sequence: Sequence, window: Window) -> Plan:
        """Everything when the last commit was uncertain, else the window and recent positions."""
        if not sequence.steps or self.staleness > self.tau:
            reason = Reason.STALE if sequence.steps else Reason.FIRST
            return Plan(window.positions, everything(sequence), reason)
        # Window positions are masked and recent ones are not: the two never meet.
        refresh = np.sort(np.concatenate((window.positions, sequence.recent(self.k))))
        return Plan(window.positions, refresh, Reason.PARTIAL)

    def observe(self, sequence: Sequence, step: Step) -> None:
        """Keep the signal of this commit for the next plan."""
        # With no tokens there is no entropy, and a maximum over nothing would be an error.
        self.staleness = SIGNALS[self.signal](step) if len(step.commit.positions) else -np.inf


SIGNALS: dict[str, Callable[[Step], float]] = {
    "max": lambda step: float(step.entropies.max()),
    "mean": lambda step: float(step.entropies.mean()),
    "confidence": lambda step: 1 - float(step.scores.confidence[step.commit.chosen].min()),
}
