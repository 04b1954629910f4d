"""Orders of candidates: by confidence, from left to right, random, or by confidence with noise.

Each ``rank`` returns ``(n,)`` numbers for ``(n,)`` positions; larger ranks are committed first.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from entropycache.core.certainty_density import certainty_density
from entropycache.core.sequence import Sequence
from entropycache.core.steps import Positions

Ranks = NDArray[np.float64]
"""One number for each candidate, ``(n,)``."""


@dataclass(frozen=True)
class ByConfidence:
    """Ranks the surest first.

    With ``sigma`` (positions) it ranks by confidence × certainty density of that width (d2Cache,
    arXiv 2509.23094). Thresholds then apply to the product, as in its released code.
    """

    sigma: float | None = None
    drawn = False

    def rank(self, sequence: Sequence, positions: Positions, confidence: Ranks) -> Ranks:
        """The confidences, or with ``sigma`` their products with the density."""
        if self.sigma is None:
            return confidence
        decoded = sequence.canvas[sequence.start :] != sequence.mask_id
        return confidence * certainty_density(decoded, self.sigma)[positions - sequence.start]


@dataclass(frozen=True)
class LeftToRight:
    """Ranks the leftmost first."""

    drawn = True

    def rank(self, sequence: Sequence, positions: Positions, confidence: Ranks) -> Ranks:
        """The negated positions."""
        return -positions.astype(np.float64)


@dataclass
class Random:
    """Ranks in a random order, drawn once for the whole canvas, as LLaDA's ``remasking='random'``.

    LLaDA draws anew at each step, which gives the same distribution of commits.
    """

    seed: int
    drawn = True
    _ranks: Ranks | None = field(default=None, init=False, repr=False)

    def rank(self, sequence: Sequence, positions: Positions, confidence: Ranks) -> Ranks:
        """The ranks drawn for these positions."""
        # Drawn at the first call, because the length of the canvas is not known before.
        if self._ranks is None:
            self._ranks = np.random.default_rng(self.seed).random(len(sequence))
        ranks: Ranks = self._ranks[positions]
        return ranks


@dataclass
class Noisy:
    """Draws candidates with probability softmax(confidence / ``temperature``).

    This is Dream's ``alg_temp``. The draw is without replacement. Adding Gumbel noise and taking
    the largest is the same draw.
    """

    temperature: float
    seed: int
    drawn = False
    _noise: np.random.Generator = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._noise = np.random.default_rng(self.seed)

    def rank(self, sequence: Sequence, positions: Positions, confidence: Ranks) -> Ranks:
        """The confidences over the temperature, plus fresh Gumbel noise."""
        return confidence / self.temperature + self._noise.gumbel(size=len(confidence))
