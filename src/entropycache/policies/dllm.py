"""dLLM-Cache (arXiv 2506.06295): prompt and response are refreshed at intervals of their own.

It caches the outputs of attention and feed-forward layers beside keys and values. The policy only
counts steps. The cached features lie in the store, and ``engine/feature_pass.py`` computes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from entropycache.core.sequence import Sequence
from entropycache.core.steps import Plan, Reason, Window
from entropycache.errors import OptionError
from entropycache.policies.base import About, FeatureRefresh, Policy


@dataclass
class DLLMCache(Policy):
    """Recompute the prompt every ``kp`` steps, the response every ``kr``, and little in between.

    In between, each layer recomputes the share ``rou`` (0 to 1) of the response whose values
    drifted most. The first layer is always recomputed, as in the released code.
    """

    kp: int = 50
    kr: int = 7
    rou: float = 0.25
    about: ClassVar[About] = About(
        "dLLM-Cache, arXiv 2506.06295",
        "prompt every kp steps, response every kr; else the share rou of the response that drifted",
        "values of the whole response and their cosines, in every layer",
    )
    keeps: ClassVar[frozenset[str]] = frozenset({"attention", "mlp"})
    _refresh: FeatureRefresh = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("kp", "kr"):
            if getattr(self, name) < 1:
                raise OptionError(
                    f"dllm: {name} must be 1 or more steps, not {getattr(self, name)}"
                )
        if not 0 <= self.rou <= 1:
            raise OptionError(f"dllm: rou must be a share from 0 to 1, not {self.rou}")
        self._refresh = FeatureRefresh(True, True, self.rou)

    def plan(self, sequence: Sequence, window: Window) -> Plan:
        """The parts that are due as a whole; the drifted rows are chosen during the pass."""
        prompt, response = sequence.steps % self.kp == 0, sequence.steps % self.kr == 0
        self._refresh = FeatureRefresh(prompt, response, self.rou)
        start = 0 if prompt else sequence.start
        end = len(sequence) if response else sequence.start
        due = np.arange(start, max(start, end), dtype=np.int64)
        reason = Reason.INTERVAL if len(due) else Reason.PARTIAL
        return Plan(window.positions, due, reason if sequence.steps else Reason.FIRST)

    def feature_refresh(self) -> FeatureRefresh:
        """The parts that this step's plan found due, and the share of the rest."""
        return self._refresh
