"""The named choices among decoding options, and the sampling settings of one request.

Plain values; the module knows neither logits nor models.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Confidence(StrEnum):
    """The measure that candidate tokens are ranked by, larger being surer.

    ``PROBABILITY`` is the token's own, ``MARGIN`` the largest probability minus the second, and
    ``ENTROPY`` the negative entropy (nats) of the distribution.
    """

    PROBABILITY = "probability"
    MARGIN = "margin"
    ENTROPY = "entropy"


class Ranking(StrEnum):
    """The order of candidates: surest first, random and drawn in advance, or leftmost first."""

    CONFIDENCE = "confidence"
    RANDOM = "random"
    LEFT_TO_RIGHT = "left-to-right"


class DreamAlgorithm(StrEnum):
    """The ``alg`` of Dream's own sampler (``diffusion_generate``), by its names.

    ``ORIGIN`` treats all masks alike. The others rank them by probability (``MASKGIT_PLUS``), by
    the lead over the second token (``TOPK_MARGIN``), or by negative entropy (``ENTROPY``).
    """

    ORIGIN = "origin"
    MASKGIT_PLUS = "maskgit_plus"
    TOPK_MARGIN = "topk_margin"
    ENTROPY = "entropy"


@dataclass(frozen=True)
class Sampling:
    """The settings by which a candidate token and its confidence are made from a row of logits.

    Confidence is read from the distribution at temperature 1. Where ``tempered`` is true it is read
    from the distribution that tokens are drawn from, as in Dream's sampler.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0
    confidence: Confidence = Confidence.PROBABILITY
    tempered: bool = False

    @property
    def cuts(self) -> bool:
        """True if top-p or top-k may leave tokens out."""
        return self.top_p < 1 or self.top_k > 0

    @property
    def reshaped(self) -> bool:
        """True if tokens or confidences need a distribution other than that at temperature 1."""
        return self.temperature > 0 or (self.tempered and self.cuts)
