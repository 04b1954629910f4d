"""What a decoding strategy is: a window rule, an order, and a commit rule. It knows neither the
network nor any cache policy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from entropycache.core.sequence import Sequence
from entropycache.core.steps import Commit, Positions, Scores, Window


class WindowRule(Protocol):
    """Says which masked positions may be committed now. Called once a step, before the policy
    plans.
    """

    def window(self, sequence: Sequence, end: int | None) -> Window:
        """At least one position while masks are left before ``end``, the first committed end token
        of an answer that may stop early; nothing behind it is offered. The sequence is not changed.
        """
        ...


class Order(Protocol):
    """Says which candidates come first. One that is ``drawn`` does so before the pass, whatever the
    scores; it is asked once a step in either case.
    """

    @property
    def drawn(self) -> bool:
        """Whether the order is known before the pass."""
        ...

    def rank(
        self, sequence: Sequence, positions: Positions, confidence: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """A number for each of ``positions``, the largest first; the commit rule sees them too."""
        ...


class CommitRule(Protocol):
    """Says how many of the ranked candidates are committed. May keep its own count for one
    request.
    """

    def count(self, confidence: NDArray[np.float64], sequence: Sequence, window: Window) -> int:
        """How many candidates to take from the front of ``confidence`` ``(n,)``, sorted surest
        first; 0 … n.
        """
        ...


@dataclass(frozen=True)
class Strategy:
    """A window rule, an order and a commit rule, as used by one request."""

    windows: WindowRule
    order: Order
    commits: CommitRule

    def window(self, sequence: Sequence, end: int | None = None) -> Window:
        """The window of this step, with what it commits where that is known already. ``end`` is the
        position of the first committed end token of an answer that may stop early.
        """
        window = self.windows.window(sequence, end)
        if not self.order.drawn:
            return window
        unknown = np.zeros(len(window.positions))
        chosen = self._take(sequence, window, window.positions, unknown)
        return replace(window, upcoming=window.positions[chosen])

    def choose(
        self, sequence: Sequence, window: Window, predict: Positions, scores: Scores
    ) -> Commit:
        """The commit of this step: the first candidates among predicted window positions, ties by
        position.
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
