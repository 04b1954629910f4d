"""The values that one step passes on: Window, Plan, Scores, Commit and Step.

All of them are plain values on the host. The module knows neither networks nor tensors nor any
particular policy or strategy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.int64]
"""Ascending positions of a canvas, ``(n,)``."""


class Reason(StrEnum):
    """The reason that a policy gives for the positions a plan refreshes."""

    FIRST = "first"
    """Nothing is in the store yet."""
    EVERY = "every"
    """The policy recomputes everything at every step."""
    STALE = "stale"
    """The policy found the store's keys and values too old."""
    BLOCK = "block"
    """A block has started, and the policy recomputes everything at the start of a block."""
    INTERVAL = "interval"
    """The policy recomputes a whole part at fixed intervals of steps, and this step is due."""
    PARTIAL = "partial"
    """Some positions are recomputed; the store is used for all others."""


@dataclass(frozen=True)
class Window:
    """The masked positions that may be committed now.

    ``positions`` ``(n,)`` ascend. ``span`` is the block they belong to, from its first position to
    the one after its last; under a sliding window it is the whole generated region. ``upcoming``
    are the positions that this step commits whatever the scores, where the order was drawn in
    advance, else ``None``.
    """

    positions: Positions
    span: tuple[int, int]
    upcoming: Positions | None = None


@dataclass(frozen=True)
class Plan:
    """The work of the next pass for one request, and the reason for it.

    ``predict`` ``(n,)`` are the positions whose logits are wanted. ``refresh`` ``(m,)`` are the
    positions whose keys and values are rewritten. Both ascend. A position that is to be predicted
    and rewritten is listed in both.
    """

    predict: Positions
    refresh: Positions
    reason: Reason


@dataclass(frozen=True)
class Logprobs:
    """Log-probabilities (nats) at temperature 1, one row for each predicted position.

    ``own`` ``(n,)`` belongs to the candidate token. ``tokens`` and ``values``, both ``(n, top)``,
    are the most probable tokens and their log-probabilities, the largest first.
    """

    own: NDArray[np.float64]
    tokens: NDArray[np.int64]
    values: NDArray[np.float64]


@dataclass(frozen=True)
class Scores:
    """A candidate token and its confidence for each position of ``Plan.predict``.

    ``tokens`` and ``confidence`` are both ``(n,)``; a larger confidence is surer. ``entropy`` maps
    indices into them to Shannon entropies (nats) of the untruncated distributions at temperature 1.
    It may be called until the next pass, which releases the logits. ``logprobs`` is ``None`` unless
    the request asked for log-probabilities.
    """

    tokens: NDArray[np.int64]
    confidence: NDArray[np.float64]
    entropy: Callable[[NDArray[np.int64]], NDArray[np.float64]]
    logprobs: Logprobs | None = None


@dataclass(frozen=True)
class Commit:
    """The tokens that a step writes at masked positions.

    ``positions`` ascend, ``tokens`` go with them, and ``chosen`` are the indices of the positions
    in ``Plan.predict`` and in the scores. All three are ``(n,)``.
    """

    positions: Positions
    tokens: NDArray[np.int64]
    chosen: NDArray[np.int64]


@dataclass(frozen=True)
class Step:
    """One step of one request, from its window to its commit.

    ``request`` is the request's number, and ``index`` counts its steps from 0. ``rows`` ``(n,)``
    are the positions that the last layer computed. ``work`` is the number of positions computed,
    as the mean over layers. ``full`` is true where every layer computed all positions.
    """

    request: int
    index: int
    window: Window
    plan: Plan
    scores: Scores
    commit: Commit
    rows: Positions
    work: float
    full: bool

    @cached_property
    def entropies(self) -> NDArray[np.float64]:
        """Entropies (nats) of the committed tokens' distributions, one for each, ``(n,)``.

        The order is that of ``commit.positions``. The first read must come before the next
        pass. Later reads return the same array.
        """
        return self.scores.entropy(self.commit.chosen)
