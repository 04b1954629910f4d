"""No cache: every pass recomputes the whole canvas.

Every other policy is tested against this one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from entropycache.core.sequence import Sequence
from entropycache.core.steps import Plan, Reason, Window
from entropycache.policies.base import About, Policy, everything


@dataclass
class NoCache(Policy):
    """Recompute everything in every pass, as the published decoders of LLaDA and Dream do."""

    about: ClassVar[About] = About("LLaDA, arXiv 2502.09992", "everything", "none")

    def plan(self, sequence: Sequence, window: Window) -> Plan:
        """The window to predict, and every position to rewrite."""
        reason = Reason.EVERY if sequence.steps else Reason.FIRST
        return Plan(window.positions, everything(sequence), reason)
