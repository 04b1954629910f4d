"""Fast-dLLM (arXiv 2505.22618): a full pass at the start of each block, then partial ones.

A *block* is the window's positions at the last full pass. This definition works under any window.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from entropycache.core.sequence import Sequence
from entropycache.core.steps import Plan, Positions, Reason, Window
from entropycache.policies.base import NOTHING, About, Policy, everything


@dataclass
class FastDual(Policy):
    """Fast-dLLM's dual cache: partial passes recompute the block alone.

    On Dream the rows are the block's prediction rows, the block shifted left by one, as d2Cache's
    framework has it; Fast-dLLM's own Dream code differs and commits the first token of each block
    from its full pass.
    """

    about: ClassVar[About] = About(
        "Fast-dLLM, arXiv 2505.22618",
        "everything at the start of a block, then the block",
        "none to speak of: whether the block is finished",
    )
    _block: Positions = field(default_factory=lambda: NOTHING, init=False, repr=False)

    def plan(self, sequence: Sequence, window: Window) -> Plan:
        """Everything when the block is finished, else the block's rows.

        ``Window.upcoming`` is predicted in any case.
        """
        block = self._block
        if not len(block) or not (sequence.canvas[block] == sequence.mask_id).any():
            self._block = window.positions
            reason = Reason.BLOCK if sequence.steps else Reason.FIRST
            return Plan(window.positions, everything(sequence), reason)
        rows = self._rows(block, len(sequence))
        # A sliding window moves on before the block is finished: only masks whose prediction rows
        # are computed can be predicted.
        predict = window.positions[np.isin(self.prediction_rows(window.positions), rows)]
        if window.upcoming is not None:
            predict = np.union1d(predict, window.upcoming)
        return Plan(predict, rows, Reason.PARTIAL)

    def _rows(self, block: Positions, length: int) -> Positions:
        return np.unique(self.prediction_rows(block))


class FastPrefix(FastDual):
    """Fast-dLLM's prefix cache: partial passes recompute the block and everything after it."""

    about: ClassVar[About] = About(
        "Fast-dLLM, arXiv 2505.22618",
        "everything at the start of a block, then the block and all after it",
        "none to speak of: whether the block is finished",
    )

    def _rows(self, block: Positions, length: int) -> Positions:
        return np.unique(self.prediction_rows(np.arange(block[0], length, dtype=np.int64)))
