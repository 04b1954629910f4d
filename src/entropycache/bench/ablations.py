"""Ablations of EntropyCache: tau, k, window and signal, one at a time.

Each is a curve of accuracy and speed with the default marked. All settings run interleaved, beside
decoding without a cache under the same rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.progress import track

from entropycache.bench.comparison import Candidate, Case, Result, interleave
from entropycache.config.generation import GenerationConfig
from entropycache.engine.engine import Engine
from entropycache.observers.figures import new_figure, png
from entropycache.observers.html_report import Section
from entropycache.policies import EntropyCache

DEFAULT = EntropyCache()
TAUS = (-1.0, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 99.0)
KS = (0, 4, 8, 16, 32, 64, 128)
WINDOWS = (8, 16, 32, 64)
ALL, NEVER = 0.003, 6.0
"""Places on a logarithmic axis of tau (nats) for settings that make every pass full, and for those
that make only the first one full.
"""

SIGNALS = {
    "max": (0.05, 0.1, 0.25, 0.5, 1.0),
    "mean": (0.05, 0.1, 0.25, 0.5, 1.0),
    "confidence": (0.01, 0.02, 0.05, 0.1, 0.3),
}


@dataclass(frozen=True)
class Point:
    """One setting of a curve. ``x`` is its place on the axis, ``base`` the configuration that its
    speed is compared with.
    """

    curve: str
    x: float
    config: GenerationConfig
    base: GenerationConfig
    default: bool


def points(config: GenerationConfig) -> list[Point]:
    """All points of all curves, around ``config``'s window and commit rule."""
    base = config.merge(policy="none")
    curves = [_point("tau", t, f"entropy:tau={t}", base, t == DEFAULT.tau) for t in TAUS]
    curves += [_point("k", k, f"entropy:k={k}", base, k == DEFAULT.k) for k in KS]
    for width in () if config.alg else WINDOWS:  # Dream's sampler has no window
        windowed = base.merge(window=width)
        default = not config.block_length and width == (config.window or config.DEFAULT_WINDOW)
        curves.append(_point("window", width, "entropy", windowed, default))
    for signal, taus in SIGNALS.items():
        for tau in taus:
            default = signal == "max" and tau == DEFAULT.tau
            spec = f"entropy:tau={tau},signal={signal}"
            curves.append(_point(f"signal {signal}", tau, spec, base, default))
    return curves


def _point(curve: str, x: float, spec: str, base: GenerationConfig, default: bool) -> Point:
    return Point(curve, float(x), base.merge(policy=spec), base, default)


def candidates(engine: Engine, curves: Sequence[Point]) -> list[Candidate]:
    """The configurations of all curves, each once, those without a cache before theirs."""
    # Several points share a configuration, such as the default: it is decoded once for all.
    configs = dict.fromkeys([c for p in curves for c in (p.base, p.config)])
    return [Candidate(f"{i}: {c.policy}", engine, c) for i, c in enumerate(configs)]


def results(curves: Sequence[Point], rows: Sequence[Result]) -> list[dict[str, Any]]:
    """The numbers of every point; speed-up and agreement are those over the point's own base."""
    by_config = {row.candidate.config: row for row in rows}
    return [
        {
            "curve": p.curve,
            "x": p.x,
            "default": p.default,
            **by_config[p.config].numbers(by_config[p.base]),
        }
        for p in curves
    ]


def run(engine: Engine, cases: Sequence[Case], curves: Sequence[Point]) -> list[dict[str, Any]]:
    """Decode all cases at every point, interleaved, and return the numbers of every point.

    Raises ``OptionError`` without a case, and ``NonFiniteLogitsError``.
    """
    running = interleave(candidates(engine, curves), cases)
    rows: list[Result] = list(track(running, "ablations", total=len(cases)))[-1]
    return results(curves, rows)


def sections(rows: Sequence[Mapping[str, Any]]) -> list[Section]:
    """A section of the report for each setting, with its picture and its table."""
    report = []
    for label, prefix, logarithmic in (
        ("tau (nats)", "tau", True),
        ("k (positions)", "k", False),
        ("window (positions)", "window", False),
        ("tau by signal", "signal", True),
    ):
        mine = [r for r in rows if r["curve"].split()[0] == prefix]
        if not mine:
            continue
        head = ("curve", label, "correct", "same answer", "speed-up", "full passes", "rows/token")
        body = [
            (
                *(r["curve"], f"{r['x']:g}"),
                *("–" if r["accuracy_percent"] is None else f"{r['accuracy_percent']:.0f} %",),
                f"{r['same_answer_percent']:.0f} %",
                *(r["speed_up"], r["full_passes"], r["rows_per_token"]),
            )
            for r in mine
        ]
        marked = frozenset(i for i, r in enumerate(mine) if r["default"])
        picture = {f"ablation of {prefix}": _curve(mine, label, logarithmic)}
        report.append(Section(f"Ablation: {label}", (), picture, head, body, marked))
    return report


def _curve(rows: Sequence[Mapping[str, Any]], label: str, logarithmic: bool) -> bytes:
    """A PNG of accuracy and speed-up against one setting; the default is the filled point."""
    figure, axes = new_figure(6.4, 3.6)
    speed = axes.twinx()
    for name in dict.fromkeys(row["curve"] for row in rows):
        mine = [r for r in rows if r["curve"] == name]
        x = [_shown(r["x"], logarithmic) for r in mine]
        suffix = f" ({name.removeprefix('signal ')})" if name.startswith("signal") else ""
        (line,) = axes.plot(x, [_share(r) for r in mine], "-", label=f"{_measure(mine)}{suffix}")
        faster = [np.nan if r["speed_up"] is None else r["speed_up"] for r in mine]
        speed.plot(x, faster, "--", color=line.get_color())
        for r, at, rate in zip(mine, x, faster, strict=True):
            face = line.get_color() if r["default"] else "white"
            for panel, y in ((axes, _share(r)), (speed, rate)):
                panel.plot(at, y, "o", markersize=5, color=line.get_color(), markerfacecolor=face)
    axes.set(xlabel=f"{label} (filled: default)", ylabel=f"{_measure(rows)} (%), full lines")
    speed.set_ylabel("speed-up over no cache, dashed")
    if logarithmic:
        axes.set_xscale("log")
        axes.set_xticks(
            [ALL, 0.01, 0.1, 1.0, NEVER], ["every\npass", "0.01", "0.1", "1", "first\nonly"]
        )
        axes.minorticks_off()
    axes.legend(fontsize=7, loc="lower right")
    return png(figure, dpi=120)


def _measure(rows: Sequence[Mapping[str, Any]]) -> str:
    judged = all(row["accuracy_percent"] is not None for row in rows)
    return "correct" if judged else "same answer"


def _share(row: Mapping[str, Any]) -> float:
    value = row["accuracy_percent"]
    return float(row["same_answer_percent"] if value is None else value)


def _shown(x: float, logarithmic: bool) -> float:
    """The place of a setting on the axis; one with none on a logarithmic axis stands at its end."""
    if not logarithmic:
        return x
    return ALL if x <= 0 else min(x, NEVER)
