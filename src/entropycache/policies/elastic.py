"""Elastic-Cache (arXiv 2510.14973): recompute all positions above the first layer that drifts.

A layer drifts where the attention of the most attended tokens changes. ``released`` follows the
public code: every layer tests the tokens of all layers, and weights are compared along the heads.
``paper`` follows the text: a layer tests its own tokens, and weights are compared along the keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from entropycache.core.sequence import Sequence
from entropycache.core.steps import Plan, Positions, Reason, Step, Window
from entropycache.errors import OptionError
from entropycache.policies.base import NOTHING, About, Policy, check_variant, everything


@dataclass
class ElasticCache(Policy):
    """Recompute the window, the last commit and tracked tokens, and more where attention drifts.

    Each layer tracks the ``track_num`` unmasked tokens that the window attends to most. Where the
    cosine similarity of their attention to that of an earlier step is below ``gamma``, everything
    is recomputed from the next layer on.
    """

    gamma: float = 0.9
    track_num: int = 1
    variant: str = "released"
    about: ClassVar[About] = About(
        "Elastic-Cache, arXiv 2510.14973",
        "the window, the last commit, tracked tokens; all positions above the first drifting layer",
        "attention weights of every layer, old and new, and two host reads a layer",
    )
    keeps: ClassVar[frozenset[str]] = frozenset({"queries", "inputs"})
    watches: ClassVar[bool] = True
    windows: ClassVar[Mapping[str, int]] = {"llada": 16, "Dream": 32}
    _tracked: dict[int, Positions] = field(default_factory=dict, init=False, repr=False)
    _next: dict[int, Positions] = field(default_factory=dict, init=False, repr=False)
    _window: Positions = field(default_factory=lambda: NOTHING, init=False, repr=False)
    _unmasked: Positions = field(default_factory=lambda: NOTHING, init=False, repr=False)
    _last: Positions = field(default_factory=lambda: NOTHING, init=False, repr=False)
    _restarted: bool = field(default=True, init=False, repr=False)

    def __post_init__(self) -> None:
        check_variant("elastic", self.variant)
        if not self.gamma >= -1:
            raise OptionError(f"elastic: gamma must be a cosine, -1 or more, not {self.gamma}")
        if self.track_num < 1:
            raise OptionError(f"elastic: track_num must be 1 or more tokens, not {self.track_num}")

    def plan(self, sequence: Sequence, window: Window) -> Plan:
        """Everything first; then the window, the last commit and the tracked tokens."""
        self._window = np.unique(self.prediction_rows(window.positions))
        self._unmasked = np.flatnonzero(sequence.canvas != sequence.mask_id)
        self._tracked, self._next = self._next, {}
        self._restarted = not sequence.steps
        if not sequence.steps:
            return Plan(window.positions, everything(sequence), Reason.FIRST)
        rows = np.concatenate((window.positions, self._last, *self._tracked.values()))
        return Plan(window.positions, np.unique(rows), Reason.PARTIAL)

    def observe(self, sequence: Sequence, step: Step) -> None:
        """Keep this commit's positions."""
        self._last = step.commit.positions

    def tracked(self, layer: int) -> Positions:
        """The positions whose drift this layer tests, ``(n,)``; none once a layer has drifted."""
        if self._restarted:
            return NOTHING
        if self.variant == "paper":
            return self._tracked.get(layer, NOTHING)
        return np.unique(np.concatenate((NOTHING, *self._tracked.values())))

    def layer(self, layer: int, rows: Positions, weights: Tensor, before: Tensor | None) -> bool:
        """Note the window's most attended tokens, and return true if the tracked ones drifted.

        Shapes are those of ``Policy.layer``.
        """
        tested = self.tracked(layer)
        self._next[layer] = self._most_attended(rows, weights)
        if before is None:
            return False
        now = weights[:, torch.from_numpy(np.searchsorted(rows, tested)).to(weights.device)]
        along = 0 if self.variant == "released" else 2
        similarity = torch.cosine_similarity(now, before, dim=along).mean()
        self._restarted = bool(similarity < self.gamma)
        return self._restarted

    def _most_attended(self, rows: Positions, weights: Tensor) -> Positions:
        """The ``track_num`` unmasked positions with the most attention from the window's rows."""
        window = torch.from_numpy(np.searchsorted(rows, self._window)).to(weights.device)
        unmasked = torch.from_numpy(self._unmasked).to(weights.device)
        received = weights[:, window].sum(dim=(0, 1))[unmasked]
        top = received.topk(min(self.track_num, len(received))).indices.cpu().numpy()
        return np.sort(self._unmasked[top])
