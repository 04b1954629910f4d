"""Commit rules: a number a step, LLaDA's schedule, confidence threshold, factor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from entropycache.core.sequence import Sequence
from entropycache.core.steps import Window


@dataclass(frozen=True)
class PerStep:
    """``n`` tokens a step."""

    n: int

    def count(self, confidence: NDArray[np.float64], sequence: Sequence, window: Window) -> int:
        """``n``, or what the window holds."""
        return min(self.n, len(confidence))


class Schedule:
    """LLaDA's schedule: a block's masks spread over ``steps_per_block`` steps, the first ones
    taking one more where the division leaves a rest (``get_num_transfer_tokens`` of the published
    sampler).

    A step may commit nothing where a block has fewer masks than steps. What a window narrower than
    the block holds back is made up for in the following steps.
    """

    def __init__(self, steps_per_block: int) -> None:
        self._steps = steps_per_block
        self._span = (-1, -1)
        self._total = self._step = 0

    def count(self, confidence: NDArray[np.float64], sequence: Sequence, window: Window) -> int:
        """As many as the schedule is behind, once this step is counted."""
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
    """Every candidate at least ``probability`` sure, and the surest one in any case (Fast-dLLM,
    arXiv 2505.22618).
    """

    probability: float

    def count(self, confidence: NDArray[np.float64], sequence: Sequence, window: Window) -> int:
        """How many reach the threshold, at least one."""
        return max(int(np.count_nonzero(confidence >= self.probability)), min(1, len(confidence)))


@dataclass(frozen=True)
class Factor:
    """Rank n is accepted while its confidence is at least 1 - factor / (n + 1), the first always
    (Fast-dLLM).

    As the paper has it: the first failure ends the prefix. The released code also takes a failing
    last candidate, d2Cache drops the last good one.
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
    """The longest prefix, in ascending entropy, whose entropies without the largest sum to at most
    ``gamma`` nats; at least one (EB-sampler, arXiv 2505.24857).
    """

    gamma: float

    def count(self, confidence: NDArray[np.float64], sequence: Sequence, window: Window) -> int:
        """``confidence`` is negative entropy: sorted, the largest entropy of a prefix is its
        last.
        """
        before = np.cumsum(-confidence) + confidence
        return int(np.count_nonzero(before <= self.gamma)) or min(1, len(confidence))


class DreamSchedule:
    """Dream's schedule (``diffusion_generate``): over the times 1 … ``EPS`` in ``steps`` equal
    steps, the share 1 - s/t of all masks at each, rounded down, and all that are left at the last.
    """

    EPS = 1e-3

    def __init__(self, steps: int) -> None:
        self._times = np.linspace(1, self.EPS, steps + 1)
        self._step = 0

    def count(self, confidence: NDArray[np.float64], sequence: Sequence, window: Window) -> int:
        """As many as the schedule has at this step, or what the window holds."""
        return min(int(len(sequence.masked()) * self.share()), len(confidence))

    def share(self) -> float:
        """The share of masks that the step at hand commits; counts the step."""
        if self._step + 2 >= len(self._times):
            return 1.0
        self._step += 1
        return float(1 - self._times[self._step] / self._times[self._step - 1])


class DreamOrigin(DreamSchedule):
    """Dream's ``alg='origin'``: each mask is committed with probability 1 - s/t, all alike. It goes
    with a random order.
    """

    def __init__(self, steps: int, seed: int) -> None:
        super().__init__(steps)
        self._random = np.random.default_rng([seed, 1])  # the order has a stream of its own

    def count(self, confidence: NDArray[np.float64], sequence: Sequence, window: Window) -> int:
        """How many of the window's masks that comes to in this draw."""
        return int(self._random.binomial(len(confidence), self.share()))
