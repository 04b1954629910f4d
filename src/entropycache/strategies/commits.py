"""Commit rules: a fixed number, the schedules of LLaDA and Dream, threshold, factor, entropy bound.

Confidences come sorted, the largest first. A rule that compares them takes at least one candidate,
because a step that commits nothing would be repeated without end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from entropycache.core.sequence import Sequence
from entropycache.core.steps import Window


@dataclass(frozen=True)
class PerStep:
    """Takes ``n`` tokens a step."""

    n: int

    def count(self, confidence: NDArray[np.float64], sequence: Sequence, window: Window) -> int:
        """``n``, or the number of candidates where there are fewer."""
        return min(self.n, len(confidence))


class Schedule:
    """Spreads a block's masks evenly over ``steps_per_block`` steps, as LLaDA does.

    Where the division leaves a remainder, the first steps take one more each
    (``get_num_transfer_tokens`` of the published sampler). A step may commit nothing where a block
    has fewer masks than steps. Where a window narrower than the block has too few candidates, the
    following steps catch up.
    """

    def __init__(self, steps_per_block: int) -> None:
        self._steps = steps_per_block
        self._span = (-1, -1)
        self._total = self._step = 0

    def count(self, confidence: NDArray[np.float64], sequence: Sequence, window: Window) -> int:
        """The number of tokens due by the end of this step that are not committed yet."""
        masked = sequence.masked()
        left = int(np.count_nonzero((masked >= window.span[0]) & (masked < window.span[1])))
        if window.span != self._span:
            self._span, self._total, self._step = window.span, left, 0
        self._step = min(self._step + 1, self._steps)
        base, rest = divmod(self._total, self._steps)
        due = base * self._step + min(rest, self._step)
        return min(max(0, due - (self._total - left)), len(confidence))


@dataclass(frozen=True)
class Threshold:
    """Takes every candidate whose confidence is at least ``probability`` (Fast-dLLM, 2505.22618).

    Where none is, the surest one is taken.
    """

    probability: float

    def count(self, confidence: NDArray[np.float64], sequence: Sequence, window: Window) -> int:
        """The number of candidates that reach the threshold, at least one."""
        return max(int(np.count_nonzero(confidence >= self.probability)), min(1, len(confidence)))


@dataclass(frozen=True)
class Factor:
    """Takes candidates while rank n has a confidence of at least 1 - ``factor`` / (n + 1).

    The rule is Fast-dLLM's (arXiv 2505.22618), as the paper has it: the first failure ends the
    prefix, and the first candidate is always taken. Fast-dLLM's released code also takes a last
    candidate that fails, and d2Cache's drops the last one that passes.
    """

    factor: float

    def count(self, confidence: NDArray[np.float64], sequence: Sequence, window: Window) -> int:
        """The length of the accepted prefix, at least one."""
        ranks = np.arange(1, len(confidence) + 1)
        failed = np.flatnonzero(confidence < 1 - self.factor / (ranks + 1))
        accepted = int(failed[0]) if len(failed) else len(confidence)
        return max(accepted, min(1, len(confidence)))


@dataclass(frozen=True)
class EntropyBound:
    """Takes the longest prefix, in ascending entropy, that stays within ``gamma`` nats.

    The sum leaves out the prefix's largest entropy; at least one candidate is taken (EB-sampler,
    arXiv 2505.24857).
    """

    gamma: float

    def count(self, confidence: NDArray[np.float64], sequence: Sequence, window: Window) -> int:
        """The length of that prefix; ``confidence`` must be negative entropy (nats)."""
        # Sorted, a prefix's last entropy is its largest: the sum of those before it is compared.
        before = np.cumsum(-confidence) + confidence
        return int(np.count_nonzero(before <= self.gamma)) or min(1, len(confidence))


class DreamSchedule:
    """Takes a share of all masks at each of ``steps`` steps, as Dream's ``diffusion_generate``.

    Time falls from 1 to ``EPS`` in equal steps. A step from time t to s takes the share 1 - s/t of
    the masks, rounded down, and the last step takes all that are left.
    """

    EPS = 1e-3

    def __init__(self, steps: int) -> None:
        self._times = np.linspace(1, self.EPS, steps + 1)
        self._step = 0

    def count(self, confidence: NDArray[np.float64], sequence: Sequence, window: Window) -> int:
        """The step's share of all masks, or the number of candidates where there are fewer."""
        return min(int(len(sequence.masked()) * self.share()), len(confidence))

    def share(self) -> float:
        """The share of masks that this step commits, 0 to 1; each call counts one step."""
        if self._step + 2 >= len(self._times):
            return 1.0
        self._step += 1
        return float(1 - self._times[self._step] / self._times[self._step - 1])


class DreamOrigin(DreamSchedule):
    """Takes each mask with probability 1 - s/t, as Dream's ``alg='origin'``.

    All masks are alike, so it goes with a random order.
    """

    def __init__(self, steps: int, seed: int) -> None:
        super().__init__(steps)
        # The order draws from ``seed`` alone: a stream of its own keeps the two independent.
        self._random = np.random.default_rng([seed, 1])

    def count(self, confidence: NDArray[np.float64], sequence: Sequence, window: Window) -> int:
        """The number of masks drawn: binomial over the candidates, with the step's share."""
        return int(self._random.binomial(len(confidence), self.share()))
