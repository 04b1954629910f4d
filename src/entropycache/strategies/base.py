"""The three parts of a decoding strategy: a window rule, an order and a commit rule.

Each step the window is asked for first, then the policy plans and the pass runs, then the order
ranks the candidates and the commit rule counts them. No part may change the sequence. The module
knows neither the network nor any cache policy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from entropycache.core.sequence import Sequence
from entropycache.core.steps import Commit, Positions, Scores, Window


class WindowRule(Protocol):
    """Names the masked positions that may be committed now.

    It is asked once a step, before the policy plans.
    """

    def window(self, sequence: Sequence, end: int | None) -> Window:
        """The window of this step; not empty while masks are left that it may offer.

        ``end`` is the position of the first committed end token of an answer that may stop early,
        else ``None``. A rule offers no position behind it, unless its schedule counts all masks.
        """
        ...


class Order(Protocol):
    """Ranks the candidates for a commit, once a step.

    An order that is ``drawn`` is asked before the pass and needs no scores.
    """

    @property
    def drawn(self) -> bool:
        """True if the order is known before the pass."""
        ...

    def rank(
        self, sequence: Sequence, positions: Positions, confidence: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """A rank ``(n,)`` for each of ``positions`` ``(n,)``; larger ranks are committed first.

        ``confidence`` ``(n,)`` is zero throughout for an order that is drawn. The commit rule is
        given the ranks in place of the confidences.
        """
        ...


class CommitRule(Protocol):
    """Counts the ranked candidates that are committed, once a step.

    It may keep numbers of its own, such as the steps so far, for the one request it serves.
    """

    def count(self, confidence: NDArray[np.float64], sequence: Sequence, window: Window) -> int:
        """The number of candidates to take from the front of ``confidence`` ``(n,)``, 0 to n.

        ``confidence`` holds the ranks, the largest first.
        """
        ...


@dataclass(frozen=True)
class Strategy:
    """A window rule, an order and a commit rule, as used by one request."""

    windows: WindowRule
    order: Order
    commits: CommitRule

    def window(self, sequence: Sequence, end: int | None = None) -> Window:
        """The window of this step, with ``upcoming`` set if the order is drawn before the pass.

        ``end`` is the position of the first committed end token of an answer that may stop early.
        """
        window = self.windows.window(sequence, end)
        if not self.order.drawn:
            return window
        # Only rules that count tokens go with such an order, and they read no confidence.
        unknown = np.zeros(len(window.positions))
        chosen = self._take(sequence, window, window.positions, unknown)
        return replace(window, upcoming=window.positions[chosen])

    def choose(
        self, sequence: Sequence, window: Window, predict: Positions, scores: Scores
    ) -> Commit:
        """The commit of this step, taken from the window's positions among ``predict`` ``(n,)``.

        ``scores`` belong to ``predict``. Candidates of equal rank are taken from the left.
        """
        wanted = window.positions if window.upcoming is None else window.upcoming
        chosen = np.flatnonzero(np.isin(predict, wanted, assume_unique=True))
        if window.upcoming is None:
            chosen = chosen[
                self._take(sequence, window, predict[chosen], scores.confidence[chosen])
            ]
        return Commit(predict[chosen], scores.tokens[chosen], chosen)

    def _take(
        self,
        sequence: Sequence,
        window: Window,
        positions: Positions,
        confidence: NDArray[np.float64],
    ) -> Positions:
        """Indices into ``positions`` of those that are committed, ascending."""
        ranks = self.order.rank(sequence, positions, confidence)
        first = np.argsort(-ranks, kind="stable")
        return np.sort(first[: self.commits.count(ranks[first], sequence, window)])
