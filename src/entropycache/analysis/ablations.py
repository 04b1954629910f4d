"""One setting at a time: tau, k, window and signal, each a curve of accuracy and speed with the
default marked. All run interleaved, beside decoding without a cache under the same rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from entropycache.bench.matrix import Arm, Row
from entropycache.config import GenerationConfig
from entropycache.engine import Engine
from entropycache.policies import EntropyCache

DEFAULT = EntropyCache()
TAUS = (-1.0, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 99.0)
KS = (0, 4, 8, 16, 32, 64, 128)
WINDOWS = (8, 16, 32, 64)
SIGNALS = {
    "max": (0.05, 0.1, 0.25, 0.5, 1.0),
    "mean": (0.05, 0.1, 0.25, 0.5, 1.0),
    "confidence": (0.01, 0.02, 0.05, 0.1, 0.3),
}


@dataclass(frozen=True)
class Point:
    """One setting of a curve: which curve, where on it, the configuration, and what its speed is
    compared with.
    """

    curve: str
    x: float
    config: GenerationConfig
    base: GenerationConfig
    default: bool


def points(config: GenerationConfig) -> list[Point]:
    """All points of all curves, around ``config``'s window and commit rule."""
    base = GenerationConfig.of(config, policy="none")
    found = [_point("tau", t, f"entropy:tau={t}", base, t == DEFAULT.tau) for t in TAUS]
    found += [_point("k", k, f"entropy:k={k}", base, k == DEFAULT.k) for k in KS]
    for width in () if config.alg else WINDOWS:  # Dream's sampler has no window
        windowed = GenerationConfig.of(base, window=width)
        default = not config.block_length and width == (config.window or config.DEFAULT_WINDOW)
        found.append(_point("window", width, "entropy", windowed, default))
    for signal, taus in SIGNALS.items():
        for tau in taus:
            default = signal == "max" and tau == DEFAULT.tau
            spec = f"entropy:tau={tau},signal={signal}"
            found.append(_point(f"signal {signal}", tau, spec, base, default))
    return found


def _point(curve: str, x: float, spec: str, base: GenerationConfig, default: bool) -> Point:
    return Point(curve, float(x), GenerationConfig.of(base, policy=spec), base, default)


def arms(engine: Engine, curves: Sequence[Point]) -> list[Arm]:
    """Each configuration once, that without a cache first."""
    configs = dict.fromkeys([c for p in curves for c in (p.base, p.config)])
    return [Arm(f"{i}: {c.policy}", engine, c) for i, c in enumerate(configs)]


def results(curves: Sequence[Point], rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The numbers of every point, its speed-up and agreement taken over its own base."""
    by_config = {row.arm.config: row for row in rows}
    return [
        {
            "curve": p.curve,
            "x": p.x,
            "default": p.default,
            **by_config[p.config].numbers(by_config[p.base]),
        }
        for p in curves
    ]
