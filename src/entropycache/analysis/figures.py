"""The figures of an analysis, each returned as the bytes of a PNG fit for a paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from entropycache.analysis.drift import Transition
from entropycache.observers.figures import new_figure, png

DPI = 120
FLOOR = 1e-12
"""The value that zeros are drawn at, as a logarithmic axis has no place for them."""


def entropy_against_drift(changes: Sequence[Transition], numbers: Mapping[str, Any]) -> bytes:
    """A PNG with a point for each step on logarithmic axes, and the median of each tenth of them.

    ``numbers`` are those of ``correlate``.
    """
    entropy = np.maximum([t.entropy for t in changes], FLOOR)
    drift = np.maximum([t.others.mean() for t in changes], FLOOR)
    figure, axes = new_figure(6.4, 4.6)
    axes.loglog(entropy, drift, "o", markersize=3.5, alpha=0.4, color="#4c72b0", markeredgewidth=0)
    tenths = np.array_split(np.argsort(entropy, kind="stable"), 10)
    middles = [(np.median(entropy[t]), np.median(drift[t])) for t in tenths if len(t)]
    axes.plot(*zip(*middles, strict=True), "o-", color="#c44e52", label="median of each tenth")
    rho = numbers["entropy"]["spearman"]
    axes.set(
        xlabel="entropy of the token just committed (nats)",
        ylabel="drift of the other values, 1 − cosine",
        title=f"Spearman {rho['value']} ({rho['interval_95'][0]} … {rho['interval_95'][1]}), "
        f"{numbers['points']} steps of {numbers['prompts']} prompts",
    )
    axes.title.set_fontsize(9)
    axes.legend(fontsize=8)
    return png(figure, DPI)


def drift_by_age(numbers: Mapping[str, Any]) -> bytes:
    """A PNG of the mean drift of committed positions against the passes since their commit.

    ``numbers`` are those of ``by_age``.
    """
    figure, axes = new_figure(6.4, 4.2)
    ages, dots = numbers["ages"], {"marker": "o", "markersize": 3}
    axes.semilogy(ages, numbers["mean_drift"], color="#4c72b0", label="committed", **dots)
    prompt = "prompt, between the same passes"
    beside = [np.nan if value is None else value for value in numbers["prompt_drift"]]
    axes.semilogy(ages, beside, "--", color="#8c8c8c", label=prompt)
    axes.set(
        xlabel="passes since the position was committed",
        ylabel="drift between passes, 1 − cosine",
    )
    axes.legend(fontsize=8)
    return png(figure, DPI)
