"""Window rules: LLaDA's semi-autoregressive blocks, a sliding window over the leftmost masks, and
the whole canvas of Dream's sampler.
"""

from __future__ import annotations

from dataclasses import dataclass

from entropycache.core.sequence import Sequence
from entropycache.core.steps import Positions, Window


@dataclass(frozen=True)
class Block:
    """The masks of the first unfinished block of ``length`` positions. Blocks count from the start
    of the generated region (arXiv 2502.09992, semi-autoregressive remasking).
    """

    length: int

    def window(self, sequence: Sequence, end: int | None = None) -> Window:
        """The masks of the first block that has any, as far as they stand before ``end``."""
        first = sequence.first_masked()
        start = first - (first - sequence.start) % self.length
        stop = min(start + self.length, len(sequence))
        masked = sequence.masked()
        return Window(_before(end, masked[masked < stop]), (start, stop))


@dataclass(frozen=True)
class Sliding:
    """The leftmost ``width`` masked positions."""

    width: int

    def window(self, sequence: Sequence, end: int | None = None) -> Window:
        """The leftmost masks, as far as they stand before ``end``; the block they belong to is the
        whole generated region.
        """
        masked = sequence.masked()[: self.width]
        return Window(_before(end, masked), (sequence.start, len(sequence)))


class WholeCanvas:
    """Every masked position: Dream's own sampler, whose schedule counts all masks, those behind an
    end token included.
    """

    def window(self, sequence: Sequence, end: int | None = None) -> Window:
        """All masks, wherever the answer ends."""
        return Window(sequence.masked(), (sequence.start, len(sequence)))


def _before(end: int | None, positions: Positions) -> Positions:
    return positions if end is None else positions[positions < end]
