"""No cache: every pass recomputes the whole canvas. The oracle that every other policy is tested
against.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from entropycache.core.sequence import Sequence
from entropycache.core.steps import Plan, Reason, Window
from entropycache.policies.base import About, Policy, everything


@dataclass
class NoCache(Policy):
    """The plain decoder of LLaDA and Dream."""

    about: ClassVar[About] = About("LLaDA, arXiv 2502.09992", "everything", "none")

    def plan(self, sequence: Sequence, window: Window) -> Plan:
        """Predict the window, recompute everything."""
        reason = Reason.EVERY if sequence.steps else Reason.FIRST
        return Plan(window.positions, everything(sequence), reason)
