"""Decoded accuracy: held-out problems decoded by the engine, judged by exact match."""

from __future__ import annotations

from collections.abc import Sequence

from entropycache.config.generation import PLAIN
from entropycache.engine.engine import Engine
from entropycache.io.problems import HeldOut

STOPPED = PLAIN.merge(early_stop=True)
"""Plain decoding with early stop, which changes its cost alone, never its text."""


def solved(engine: Engine, problems: Sequence[HeldOut]) -> int:
    """The number of ``problems`` that plain decoding solves."""
    done = engine.generate([problem.chat for problem in problems], STOPPED, batch_size=16)
    assert isinstance(done, list)
    return sum(p.solved_by(c.text) for p, c in zip(problems, done, strict=True))
