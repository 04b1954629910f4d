"""Window rules: LLaDA's blocks, a sliding window over the leftmost masks, and the whole canvas."""

from __future__ import annotations

from dataclasses import dataclass

from entropycache.core.sequence import Sequence
from entropycache.core.steps import Positions, Window


@dataclass(frozen=True)
class Block:
    """Offers the masks of the first unfinished block of ``length`` positions.

    Blocks count from the start of the generated region, as in LLaDA's semi-autoregressive remasking
    (arXiv 2502.09992).
    """

    length: int

    def window(self, sequence: Sequence, end: int | None = None) -> Window:
        """The masks of the first block that has any, without those behind ``end``."""
        first = sequence.first_masked()
        start = first - (first - sequence.start) % self.length
        stop = min(start + self.length, len(sequence))
        masked = sequence.masked()
        return Window(_before(end, masked[masked < stop]), (start, stop))


@dataclass(frozen=True)
class Sliding:
    """Offers the leftmost ``width`` masked positions."""

    width: int

    def window(self, sequence: Sequence, end: int | None = None) -> Window:
        """The leftmost masks, without those behind ``end``; the span is the generated region."""
        masked = sequence.masked()[: self.width]
        return Window(_before(end, masked), (sequence.start, len(sequence)))


class WholeCanvas:
    """Offers every masked position, as Dream's own sampler does.

    Its schedule counts all masks, so those behind an end token are offered too.
    """

    def window(self, sequence: Sequence, end: int | None = None) -> Window:
        """All masks; ``end`` is ignored."""
        return Window(sequence.masked(), (sequence.start, len(sequence)))


def _before(end: int | None, positions: Positions) -> Positions:
    return positions if end is None else positions[positions < end]
