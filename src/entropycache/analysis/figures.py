"""The pictures of an analysis, each a PNG fit for a paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from entropycache.analysis.drift import Transition
from entropycache.bench.plots import new_figure, png

DPI = 120
FLOOR = 1e-12
ALL, NEVER = 0.003, 6.0
"""Where on an axis of tau those stand that make every pass full, or the first one only."""


def entropy_against_drift(found: Sequence[Transition], numbers: Mapping[str, Any]) -> bytes:
    """A point for each step, both axes logarithmic, and the median of each tenth of the points."""
    entropy = np.maximum([t.entropy for t in found], FLOOR)
    drift = np.maximum([t.others.mean() for t in found], FLOOR)
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
    """Mean drift of committed positions against the passes since their commit."""
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


def curve(rows: Sequence[Mapping[str, Any]], label: str, logarithmic: bool) -> bytes:
    """Accuracy and speed-up against one setting; the default is the filled point."""
    figure, axes = new_figure(6.4, 3.6)
    speed = axes.twinx()
    for name in dict.fromkeys(row["curve"] for row in rows):
        mine = [r for r in rows if r["curve"] == name]
        x = [_shown(r["x"], logarithmic) for r in mine]
        suffix = f" ({name.removeprefix('signal ')})" if name.startswith("signal") else ""
        (line,) = axes.plot(x, [_share(r) for r in mine], "-", label=f"{_what(mine)}{suffix}")
        faster = [np.nan if r["speed_up"] is None else r["speed_up"] for r in mine]
        speed.plot(x, faster, "--", color=line.get_color())
        for r, at, rate in zip(mine, x, faster, strict=True):
            face = line.get_color() if r["default"] else "white"
            for panel, y in ((axes, _share(r)), (speed, rate)):
                panel.plot(at, y, "o", markersize=5, color=line.get_color(), markerfacecolor=face)
    axes.set(xlabel=f"{label} (filled: default)", ylabel=f"{_what(rows)} (%), full lines")
    speed.set_ylabel("speed-up over no cache, dashed")
    if logarithmic:
        axes.set_xscale("log")
        axes.set_xticks(
            [ALL, 0.01, 0.1, 1.0, NEVER], ["every\npass", "0.01", "0.1", "1", "first\nonly"]
        )
        axes.minorticks_off()
    axes.legend(fontsize=7, loc="lower right")
    return png(figure, DPI)


def _what(rows: Sequence[Mapping[str, Any]]) -> str:
    judged = all(row["accuracy_percent"] is not None for row in rows)
    return "correct" if judged else "same answer"


def _share(row: Mapping[str, Any]) -> float:
    value = row["accuracy_percent"]
    return float(row["same_answer_percent"] if value is None else value)


def _shown(x: float, logarithmic: bool) -> float:
    """Settings that have no place on a logarithmic axis stand at its ends."""
    if not logarithmic:
        return x
    return ALL if x <= 0 else min(x, NEVER)
