"""Orders: what candidates are ranked by."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from entropycache.core.certainty_density import certainty_density
from entropycache.core.sequence import Sequence
from entropycache.core.steps import Positions

Ranks = NDArray[np.float64]


@dataclass(frozen=True)
class ByConfidence:
    """The surest first; with ``sigma``, confidence × certainty density of that width (d2Cache,
    arXiv 2509.23094). Thresholds then apply to the product, as in its released code.
    """

    sigma: float | None = None
    drawn = False

    def rank(self, sequence: Sequence, positions: Positions, confidence: Ranks) -> Ranks:
        """Confidence, or its product with the density."""
        if self.sigma is None:
            return confidence
        decoded = sequence.canvas[sequence.start :] != sequence.mask_id
        return confidence * certainty_density(decoded, self.sigma)[positions - sequence.start]


@dataclass(frozen=True)
class LeftToRight:
    """The leftmost first."""

    drawn = True

    def rank(self, sequence: Sequence, positions: Positions, confidence: Ranks) -> Ranks:
        """Minus the position."""
        return -positions.astype(np.float64)


@dataclass
class Random:
    """An order drawn once for the whole canvas: LLaDA's ``remasking='random'``, whose fresh draw at
    each step has the same distribution.
    """

    seed: int
    drawn = True
    _ranks: Ranks | None = field(default=None, init=False, repr=False)

    def rank(self, sequence: Sequence, positions: Positions, confidence: Ranks) -> Ranks:
        """The drawn ranks of the positions."""
        if self._ranks is None:
            self._ranks = np.random.default_rng(self.seed).random(len(sequence))
        found: Ranks = self._ranks[positions]
        return found


@dataclass
class Noisy:
    """Candidates drawn without replacement with probability softmax(confidence / ``temperature``):
    Dream's ``alg_temp``. Gumbel noise on the logits, then the largest, is that draw.
    """

    temperature: float
    seed: int
    drawn = False
    _noise: np.random.Generator = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._noise = np.random.default_rng(self.seed)

    def rank(self, sequence: Sequence, positions: Positions, confidence: Ranks) -> Ranks:
        """Perturbed confidence."""
        return confidence / self.temperature + self._noise.gumbel(size=len(confidence))
