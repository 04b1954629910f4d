"""What options choose between, and the sampling settings they come to; plain values that know
nothing of the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Confidence(StrEnum):
    """What candidates are ranked by: the token's probability, its lead over the runner-up, or
    negative entropy.
    """

    PROBABILITY = "probability"
    MARGIN = "margin"
    ENTROPY = "entropy"


class Ranking(StrEnum):
    """Which candidates come first: the surest, a random order drawn in advance, or the leftmost."""

    CONFIDENCE = "confidence"
    RANDOM = "random"
    LEFT_TO_RIGHT = "left-to-right"


class DreamAlgorithm(StrEnum):
    """``alg`` of Dream's own sampler: all masks alike, or ranked by probability, margin or negative
    entropy.
    """

    ORIGIN = "origin"
    MASKGIT_PLUS = "maskgit_plus"
    TOPK_MARGIN = "topk_margin"
    ENTROPY = "entropy"


@dataclass(frozen=True)
class Sampling:
    """How a candidate token is drawn from a row of logits, and how sure it is said to be.

    Confidence comes from the distribution at temperature 1, or, where it is ``tempered``, from the
    one that tokens are drawn from, as in Dream's sampler.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0
    confidence: Confidence = Confidence.PROBABILITY
    tempered: bool = False

    @property
    def cuts(self) -> bool:
        """Whether top-p or top-k leave anything out."""
        return self.top_p < 1 or self.top_k > 0

    @property
    def reshaped(self) -> bool:
        """Whether anything asked for needs another distribution than that at temperature 1."""
        return self.temperature > 0 or (self.tempered and self.cuts)
