"""The statistics that the project publishes: intervals of shares, medians and quartiles."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def wilson(solved: int, count: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927), in percent."""
    if not count:
        return 0.0, 100.0
    z, p = 1.96, solved / count
    centre = (p + z * z / (2 * count)) / (1 + z * z / count)
    half = z * math.sqrt(p * (1 - p) / count + z * z / (4 * count**2)) / (1 + z * z / count)
    return round(100 * (centre - half), 1), round(100 * (centre + half), 1)


def resamples(count: int, draws: int) -> NDArray[np.int64]:
    """Indices ``(draws, count)`` of a bootstrap: each row draws from 0 … count - 1 with
    replacement. The seed is fixed.
    """
    return np.random.default_rng(0).integers(0, count, (draws, count))


def ratio_interval(
    over: Sequence[tuple[float, float]], under: Sequence[tuple[float, float]], draws: int = 2000
) -> tuple[float, float] | None:
    """The 95 % interval of a ratio of two rates by bootstrap over problems; ``None`` where it has
    no meaning: one problem alone, or no tokens.

    ``over`` and ``under`` are (tokens, seconds) of the same problems in two configurations; the
    rates are all tokens over all seconds. The draws have a fixed seed.
    """
    if len(over) < 2 or not sum(t for t, _ in under) or not sum(t for t, _ in over):
        return None
    a, b = np.asarray(over, dtype=float), np.asarray(under, dtype=float)
    picks = resamples(len(a), draws)
    x, y = a[picks].sum(axis=1), b[picks].sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = (x[:, 0] / x[:, 1]) / (y[:, 0] / y[:, 1])
    low, high = np.nanpercentile(ratios, (2.5, 97.5))
    return round(float(low), 2), round(float(high), 2)
