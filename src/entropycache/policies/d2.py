"""d2Cache (arXiv 2509.23094): masks chosen by certainty, everything else by attention rollout.

``released`` follows the public code. Certainties stay those of the first pass, and the block
shrinks as it is filled. On Dream the row before the region is dropped unless the region's first
mask is chosen. Where candidates are ranked by negative entropy, masks are ranked the wrong way
round. ``paper`` follows the text instead.

One thing differs from the released code: masks that were not computed are no candidates. There they
are, with token 0. The rollout equals the column sums of the dense product formed there, at a small
part of its cost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from entropycache.core.certainty_density import certainty_density
from entropycache.core.sequence import Sequence
from entropycache.core.steps import Plan, Positions, Reason, Step, Window
from entropycache.errors import OptionError
from entropycache.policies.base import About, Policy, check_variant, everything
from entropycache.policies.rollout import Rollout


@dataclass
class D2Cache(Policy):
    """Recompute the surest masks, the last commit, and the most attended of the other positions.

    The masks are the ``current_k`` of highest certainty × density, of width ``sigma`` (positions).
    The other positions are those that hold the share ``rollout_p`` of the attention rollout; 1
    means all. Gaps of up to ``inflate_w`` positions are filled.
    """

    rollout_p: float = 0.1
    current_k: int = 32
    sigma: float = 10.0
    inflate_w: int = 0
    variant: str = "released"
    about: ClassVar[About] = About(
        "d2Cache, arXiv 2509.23094",
        "the current_k surest masks, the last commit, and a rollout_p share of the rest",
        "attention weights of every layer, their rollout, density and sorting",
    )
    watches: ClassVar[bool] = True
    _certainty: NDArray[np.float64] = field(init=False, repr=False)
    _importance: NDArray[np.float64] = field(init=False, repr=False)
    _rollout: Rollout = field(default_factory=Rollout, init=False, repr=False)
    _last: Step = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_variant("d2", self.variant)
        if not self.rollout_p >= 0:
            raise OptionError(f"d2: rollout_p must be a share of 0 or more, not {self.rollout_p}")
        if self.current_k < 1 or self.inflate_w < 0 or not self.sigma > 0:
            raise OptionError(
                "d2: current_k must be 1 or more, inflate_w 0 or more and sigma above 0, not "
                f"current_k={self.current_k}, inflate_w={self.inflate_w}, sigma={self.sigma}"
            )

    def plan(self, sequence: Sequence, window: Window) -> Plan:
        """First every position and every mask; then the chosen rows and the masks they predict."""
        masked = sequence.masked()
        if not sequence.steps:
            return Plan(masked, everything(sequence), Reason.FIRST)
        rows = np.flatnonzero(self._select(sequence, window))
        predict = masked[np.isin(self.prediction_rows(masked), rows)]
        # Certainties stay those of the first pass: predictions outside the window have no reader.
        if self.variant == "released":
            predict = np.intersect1d(predict, window.positions)
        if window.upcoming is not None:
            predict = np.union1d(predict, window.upcoming)
        elif not np.isin(predict, window.positions).any():
            predict = np.union1d(predict, window.positions[:1])
        return Plan(predict, rows, Reason.PARTIAL)

    def observe(self, sequence: Sequence, step: Step) -> None:
        """Keep the certainties of predicted masks; ``released`` keeps the first pass's only."""
        if not step.index:
            self._certainty = np.zeros(len(sequence))
        if not step.index or self.variant == "paper":
            certainty = step.scores.confidence
            # Negative entropies: times a density, the least certain would rank first.
            if self.variant == "paper" and (certainty <= 0).all():
                certainty = np.exp(certainty)
            self._certainty[step.plan.predict] = certainty
        self._importance = self._rollout.take(len(sequence))
        self._last = step

    def layer(self, layer: int, rows: Positions, weights: Tensor, before: Tensor | None) -> bool:
        """Add the rows' attention ``(heads, rows, length)`` to the rollout; return false."""
        self._rollout.add(rows, weights)
        return False

    def _select(self, sequence: Sequence, window: Window) -> NDArray[np.bool_]:
        """A mask ``(length,)`` that is true at the rows to compute."""
        chosen = self._sure_masks(sequence, window) + sequence.start
        first, rows = sequence.start, self.prediction_rows(chosen)
        selected = np.zeros(len(sequence), bool)
        # On Dream the row before the region predicts the region's first position. The released code
        # sets this row last, over what the rollout chose.
        apart = self.variant == "released" and self.prediction_rows(np.array([first]))[0] < first
        selected[rows[rows >= first] if apart else rows] = True
        selected[self._last.commit.positions] = True
        selected[self._nucleus(np.flatnonzero(~selected))] = True
        if apart:
            selected[first - 1] = first in chosen
        if self.inflate_w:
            at = np.flatnonzero(selected)
            for left, right in zip(at, at[1:], strict=False):
                selected[left:right] |= right - left <= self.inflate_w
        return selected

    def _sure_masks(self, sequence: Sequence, window: Window) -> Positions:
        """The masks of highest certainty × density, counted from the region's start, ascending."""
        first = sequence.start
        masked = sequence.canvas[first:] == sequence.mask_id
        scores = self._certainty[first:] * certainty_density(~masked, self.sigma)
        if self.variant == "released":
            block = self._last.window.positions - first
            start, size = int(block[0]), len(block)
        else:
            start, size = window.span[0] - first, window.span[1] - window.span[0]
            block = np.arange(start, start + size)
        enough = np.flatnonzero(np.cumsum(masked) >= self.current_k)
        last = int(enough[0]) if len(enough) else len(masked) - 1
        end = (last // size + 1) * size
        scores[block] += scores.max()  # the current block comes before all later ones
        eligible = masked.copy()
        eligible[:start] = eligible[end:] = False
        order = np.argsort(-np.where(eligible, scores, -np.inf), kind="stable")[: self.current_k]
        return np.sort(order[eligible[order]])

    def _nucleus(self, rest: Positions) -> Positions:
        """Positions of ``rest`` with the largest rollout, up to the share ``rollout_p`` of it."""
        if self.rollout_p >= 1:
            return rest
        importance = self._importance[rest]
        share = importance / (importance.sum() + 1e-9)
        order = np.argsort(-share, kind="stable")
        within = np.cumsum(share[order]) <= self.rollout_p
        within[:1] = True  # at least one, however large its share
        return rest[order[within]]
