"""What a cache policy is. It knows canvases and steps; it holds its own numbers and never tensors
of the store.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from entropycache.plan import Plan, Positions, Step, Window
from entropycache.sequence import Sequence


class Policy(Protocol):
    """Decides what each pass of one request recomputes.

    Call order: ``plan`` before every pass, ``observe`` after the commit was applied. Neither
    changes the sequence. The first plan must refresh every position: the store holds nothing yet.
    """

    def plan(self, sequence: Sequence, window: Window) -> Plan:
        """What the next pass predicts and rewrites."""
        ...

    def observe(self, sequence: Sequence, step: Step) -> None:
        """Take note of what the step did."""
        ...


def everything(sequence: Sequence) -> Positions:
    """Every position of the canvas."""
    return np.arange(len(sequence), dtype=np.int64)
