"""dKV-Cache (arXiv 2505.15781): a token's keys and values are cached one step after it was
committed.

Written from the released LLaDA code (``llada_dkv_cache_decode.py``, ``..._greedy.py``); on Dream a
row is cacheable when the position it predicts is decoded, its shift type ``un``. The greedy variant
was published for LLaDA; on Dream the rows that predict its positions are computed as well.
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
    """dKV-Cache-Decode: recompute all masks and what the last step committed; everything in the
    first two steps of a block and in every ``cache_steps``-th.
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
        """Everything when it is due, else all but the rows cached since the step before last."""
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
        """Count the block's steps and keep the commit."""
        self._index += 1
        self._last = step.commit.positions


@dataclass
class DKVGreedy(Policy):
    """dKV-Cache-Greedy: recompute what is committed now, what the last step committed, and
    ``window_size`` masks around; everything every ``cache_steps`` steps. Needs an order that is
    drawn in advance.
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
        """Everything when it is due, else the neighbourhood of what is committed now."""
        now = window.upcoming
        assert now is not None, "the engine refuses this policy without an order"
        if sequence.steps % self.cache_steps == 0:
            reason = Reason.INTERVAL if sequence.steps else Reason.FIRST
            return Plan(now, everything(sequence), reason)
        around = _around(now, sequence.masked(), self.window_size)
        rows = np.unique(np.concatenate((now, self._last, around)))
        return Plan(now, rows, Reason.PARTIAL)

    def observe(self, sequence: Sequence, step: Step) -> None:
        """Keep the commit."""
        self._last = step.commit.positions


def _around(now: Positions, masked: Positions, count: int) -> Positions:
    """``count`` masks around those of ``now``: the nearest left of each, the nearest right of each,
    then the second nearest, and so on.
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
