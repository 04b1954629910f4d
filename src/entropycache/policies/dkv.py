"""dKV-Cache (arXiv 2505.15781): keys and values are cached one step after a token's commit.

The paper finds that a token's keys and values change most in the step after it replaced its mask.

Follows the released LLaDA code (``llada_dkv_cache_decode.py``, ``..._greedy.py``). On Dream a row
is cached when the position that it predicts is decoded, the released shift type ``un``. The greedy
variant was published for LLaDA alone; on Dream the rows that predict its positions are computed as
well.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from entropycache.core.sequence import Sequence
from entropycache.core.steps import Plan, Positions, Reason, Step, Window
from entropycache.errors import OptionError
from entropycache.policies.base import NOTHING, About, Policy, everything


@dataclass
class DKVDecode(Policy):
    """Recompute all masks and the last commit (dKV-Cache-Decode).

    Everything is recomputed in the first two steps of a block and in every ``cache_steps``-th.
    """

    cache_steps: int = 8
    about: ClassVar[About] = About(
        "dKV-Cache, arXiv 2505.15781",
        "all masks and the last commit; everything every cache_steps steps",
        "none to speak of: a set difference of positions",
    )
    _span: tuple[int, int] = field(default=(-1, -1), init=False, repr=False)
    _index: int = field(default=0, init=False, repr=False)
    _last: Positions = field(default_factory=lambda: NOTHING, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.cache_steps < 1:
            raise OptionError(f"cache_steps must be 1 or more steps, not {self.cache_steps}")

    def plan(self, sequence: Sequence, window: Window) -> Plan:
        """Everything when it is due, else all rows but those committed before the last step."""
        if window.span != self._span:
            self._span, self._index = window.span, 0
        if not sequence.steps:
            return Plan(window.positions, everything(sequence), Reason.FIRST)
        if self._index < 2 or self._index % self.cache_steps == 0:
            reason = Reason.BLOCK if self._index < 2 else Reason.INTERVAL
            return Plan(window.positions, everything(sequence), reason)
        every = everything(sequence)
        decoded = np.setdiff1d(every[sequence.canvas != sequence.mask_id], self._last)
        rows = np.setdiff1d(every, self.prediction_rows(decoded))
        return Plan(window.positions, rows, Reason.PARTIAL)

    def observe(self, sequence: Sequence, step: Step) -> None:
        """Count the block's steps and keep this commit's positions."""
        self._index += 1
        self._last = step.commit.positions


@dataclass
class DKVGreedy(Policy):
    """Recompute this commit, the last one and ``window_size`` masks around (dKV-Cache-Greedy).

    Everything is recomputed every ``cache_steps`` steps. The policy must know the commit before the
    pass, so it needs an order that is drawn in advance.
    """

    cache_steps: int = 2
    window_size: int = 4
    about: ClassVar[About] = About(
        "dKV-Cache, arXiv 2505.15781",
        "this commit, the last one, window_size masks around; everything every cache_steps steps",
        "none to speak of; needs order=random or left-to-right",
    )
    needs_order: ClassVar[bool] = True
    _last: Positions = field(default_factory=lambda: NOTHING, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.cache_steps < 1:
            raise OptionError(f"cache_steps must be 1 or more steps, not {self.cache_steps}")
        if self.window_size < 0:
            raise OptionError(f"window_size must be 0 or more masks, not {self.window_size}")

    def plan(self, sequence: Sequence, window: Window) -> Plan:
        """Everything when it is due, else this commit, the last one and the masks around."""
        now = window.upcoming
        assert now is not None, "the engine refuses this policy without an order"
        if sequence.steps % self.cache_steps == 0:
            reason = Reason.INTERVAL if sequence.steps else Reason.FIRST
            return Plan(now, everything(sequence), reason)
        around = _around(now, sequence.masked(), self.window_size)
        rows = np.unique(np.concatenate((now, self._last, around)))
        return Plan(now, rows, Reason.PARTIAL)

    def observe(self, sequence: Sequence, step: Step) -> None:
        """Keep this commit's positions."""
        self._last = step.commit.positions


def _around(now: Positions, masked: Positions, count: int) -> Positions:
    """Up to ``count`` masks around those of ``now``, the nearest first.

    The nearest left of each come first, then the nearest right of each, then the second nearest.
    """
    others = np.setdiff1d(masked, now)
    found: list[int] = []
    for rank in range(len(others)):
        for step in (-1, 1):
            for token in now:
                at = int(np.searchsorted(others, token)) + (-1 - rank if step < 0 else rank)
                if len(found) == count:
                    return np.array(found, np.int64)
                if 0 <= at < len(others) and int(others[at]) not in found:
                    found.append(int(others[at]))
    return np.array(found, np.int64)
