"""Correlation of a signal with the drift that follows it, and drift by age.

Steps of one prompt depend on each other, so intervals come from a bootstrap over whole prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import stats

from entropycache.analysis.drift import Floats, Transition
from entropycache.observers.statistics import resamples

DRAWS = 1000
"""Bootstrap samples of an interval."""
RELIABLE = 10
"""The smallest number of positions of one age that a mean is taken of."""


def correlate(changes: Sequence[Transition]) -> dict[str, Any]:
    """Coefficients of entropy, and of 1 - confidence, with the mean drift of the other positions.

    They are Pearson's, of values and of logarithms, and Spearman's; Spearman's of entropy also for
    each layer from the second on. Each comes with its 95 % interval, by a bootstrap over prompts
    with a fixed seed. ``points`` counts the steps and ``prompts`` the prompts they come from.
    """
    groups = np.array([t.request for t in changes])
    # Without the first layer: its values depend on a position's own token alone, so no commit can
    # move those of other positions.
    drift = np.array([t.others for t in changes])[:, 1:]
    mean = drift.mean(axis=1)
    signals = {
        "entropy": np.array([t.entropy for t in changes]),
        "1 - confidence": np.array([1 - t.confidence for t in changes]),
    }
    results: dict[str, Any] = {"points": len(changes), "prompts": len(set(groups.tolist()))}
    for name, signal in signals.items():
        results[name] = {
            "pearson": _interval(pearson, signal, mean, groups),
            "pearson_of_logarithms": _interval(pearson, _log(signal), _log(mean), groups),
            "spearman": _interval(spearman, signal, mean, groups),
        }
    layers = [spearman(signals["entropy"], drift[:, i]) for i in range(drift.shape[1])]
    results["spearman_from_second_layer"] = [
        None if np.isnan(value) else round(value, 4) for value in layers
    ]
    return results


def pearson(x: Floats, y: Floats) -> float:
    """Pearson's r of x and y, both ``(n,)``; NaN if one of them does not vary."""
    if not len(x) or np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    return float(stats.pearsonr(x, y).statistic)


def spearman(x: Floats, y: Floats) -> float:
    """Spearman's rho of x and y, both ``(n,)``: Pearson's r of the ranks, with ties averaged."""
    return pearson(stats.rankdata(x), stats.rankdata(y))


def by_age(changes: Sequence[Transition], limit: int = 64) -> dict[str, Any]:
    """Mean drift of committed positions by age, the number of passes since their commit.

    Age 1 is the pass in which the token itself is new. ``prompt_drift`` is that of the prompt
    between the same passes, ``None`` without a prompt. ``volatile_for`` counts the ages in a row,
    from 1, whose drift is more than twice the prompt's. Ages above ``limit``, and those that fewer
    than ``RELIABLE`` positions reach, are left out.
    """
    ages = np.concatenate([t.ages for t in changes])
    drift = np.concatenate([t.aged for t in changes])
    prompt = np.concatenate([np.full(len(t.ages), t.prompt) for t in changes])
    counts = {a: int((ages == a).sum()) for a in range(1, limit + 1)}
    known = [a for a, count in counts.items() if count >= RELIABLE]
    means = [float(drift[ages == a].mean()) for a in known]
    beside = [_mean_of_known(prompt[ages == a]) for a in known]
    volatile = 0
    for age, own, other in zip(known, means, beside, strict=True):
        if age != volatile + 1 or other is None or own <= 2 * other:
            break
        volatile = age
    return {
        "ages": known,
        "mean_drift": means,
        "prompt_drift": beside,
        "positions": [counts[a] for a in known],
        "volatile_for": volatile,
    }


def _mean_of_known(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def _interval(
    measure: Callable[[Floats, Floats], float], x: Floats, y: Floats, groups: np.ndarray[Any, Any]
) -> dict[str, Any]:
    """The coefficient and its 95 % interval, by a bootstrap over the prompts ``groups`` ``(n,)``.

    The value is ``None`` if x or y does not vary, the interval if there is only one prompt.
    """
    value = measure(x, y)
    if np.isnan(value):
        return {"value": None, "interval_95": [None, None]}
    if len(np.unique(groups)) < 2:
        return {"value": round(value, 4), "interval_95": [None, None]}
    members = [np.flatnonzero(groups == g) for g in np.unique(groups)]
    draws = []
    for prompts in resamples(len(members), DRAWS):
        picked = np.concatenate([members[i] for i in prompts])
        draws.append(measure(x[picked], y[picked]))
    # A draw in which nothing varies has no coefficient and is left out.
    low, high = np.nanpercentile(draws, (2.5, 97.5))
    return {"value": round(value, 4), "interval_95": [round(float(low), 4), round(float(high), 4)]}


def _log(values: Floats) -> Floats:
    """Logarithms to base 10, ``(n,)``, with zeros set to the smallest positive value first."""
    positive = values[values > 0]
    floor = positive.min() if len(positive) else 1.0
    logarithms: Floats = np.log10(np.maximum(values, floor))
    return logarithms
