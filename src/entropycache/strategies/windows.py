"""Window rules: LLaDA's semi-autoregressive blocks, and a sliding window over the leftmost
masks.
"""

from __future__ import annotations

from dataclasses import dataclass

from entropycache.core.sequence import Sequence
from entropycache.core.steps import Window


@dataclass(frozen=True)
class Block:
    """The masks of the first unfinished block of ``length`` positions, counted from the generated
    region's begin (arXiv 2502.09992, semi-autoregressive remasking).
    """

    length: int

    def window(self, sequence: Sequence) -> Window:
        """The masks of the first block that has any."""
        first = sequence.first_masked()
        begin = first - (first - sequence.start) % self.length
        end = min(begin + self.length, len(sequence))
        masked = sequence.masked()
        return Window(masked[masked < end], (begin, end))


@dataclass(frozen=True)
class Sliding:
    """The leftmost ``width`` masked positions."""

    width: int

    def window(self, sequence: Sequence) -> Window:
        """The leftmost masks; the block they belong to is the whole generated region."""
        return Window(sequence.masked()[: self.width], (sequence.start, len(sequence)))
