"""The shared vocabulary: Window, Plan, Scores, Commit and Step.

A leaf module of plain host values; it knows neither networks nor tensors nor any particular policy
or strategy.
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
    """Why a plan recomputes what it recomputes."""

    FIRST = "first"
    """Nothing is in the store yet."""
    EVERY = "every"
    """The policy recomputes everything at every step."""
    STALE = "stale"
    """The policy judged the store too old."""
    BLOCK = "block"
    """The policy begins every block anew."""
    INTERVAL = "interval"
    """The policy recomputes something whole every so many steps, and this is such a step."""
    PARTIAL = "partial"
    """The store is trusted; only some positions are recomputed."""


@dataclass(frozen=True)
class Window:
    """The masked positions that may be committed now, and the ``span`` (begin, end) of the block
    they belong to.

    Under a sliding window the block is the whole generated region. ``upcoming`` are those that this
    step commits whatever the scores, where the order was drawn in advance; else ``None``.
    """

    positions: Positions
    span: tuple[int, int]
    upcoming: Positions | None = None


@dataclass(frozen=True)
class Plan:
    """What the next pass does.

    ``predict``: positions whose logits are wanted. ``refresh``: positions whose keys and values are
    rewritten; predicted ones are listed where theirs are to be rewritten too.
    """

    predict: Positions
    refresh: Positions
    reason: Reason


@dataclass(frozen=True)
class Logprobs:
    """Log-probabilities (nats) at temperature 1, a row for each predicted position: of the
    candidate token ``own`` ``(n,)``, and of the most probable tokens ``tokens`` and ``values``,
    both ``(n, top)``, the largest first.
    """

    own: NDArray[np.float64]
    tokens: NDArray[np.int64]
    values: NDArray[np.float64]


@dataclass(frozen=True)
class Scores:
    """What the logits of ``Plan.predict`` came to: for each position a candidate token and how sure
    it is.

    ``tokens`` ``(n,)``; ``confidence`` ``(n,)``, larger is surer. ``entropy`` maps indices into
    these arrays to the Shannon entropies (nats) of the untruncated distributions at temperature 1;
    it may be called until the next pass. ``logprobs`` are there where the request asked for them.
    """

    tokens: NDArray[np.int64]
    confidence: NDArray[np.float64]
    entropy: Callable[[NDArray[np.int64]], NDArray[np.float64]]
    logprobs: Logprobs | None = None


@dataclass(frozen=True)
class Commit:
    """Tokens written at masked positions: ``positions`` ascending and ``tokens``, both ``(n,)``,
    and where the positions stand in ``Plan.predict`` and in the scores, ``chosen``.
    """

    positions: Positions
    tokens: NDArray[np.int64]
    chosen: NDArray[np.int64]


@dataclass(frozen=True)
class Step:
    """One step of one request. ``rows`` are the positions that the last layer computed, ``work``
    the positions computed as the mean over layers, ``full`` says that these were all.
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
        """Entropies (nats) of the committed tokens' distributions, in the order of
        ``commit.positions``. To be asked for before the next pass; kept from then on.
        """
        return self.scores.entropy(self.commit.chosen)
