"""What a decoding strategy is: a window rule and a commit rule. It knows neither the network nor
any cache policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from entropycache.plan import Commit, Positions, Scores, Window
from entropycache.sequence import Sequence


class WindowRule(Protocol):
    """Says which masked positions may be committed now. Called once a step, before the policy
    plans.
    """

    def window(self, sequence: Sequence) -> Window:
        """At least one position while the sequence has masks; the sequence is not changed."""
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
    """A window rule and a commit rule, as used by one request."""

    windows: WindowRule
    commits: CommitRule

    def window(self, sequence: Sequence) -> Window:
        """The window of this step."""
        return self.windows.window(sequence)

    def choose(
        self, sequence: Sequence, window: Window, predict: Positions, scores: Scores
    ) -> Commit:
        """The commit of this step: the surest candidates among predicted window positions, ties by
        position.
        """
        inside = np.flatnonzero(np.isin(predict, window.positions, assume_unique=True))
        confidence = scores.confidence[inside]
        ranked = np.argsort(-confidence, kind="stable")
        count = self.commits.count(confidence[ranked], sequence, window)
        chosen = np.sort(inside[ranked[:count]])
        return Commit(predict[chosen], scores.tokens[chosen], chosen)
