"""Decoded accuracy: held-out problems decoded through the engine, exact match of the answer."""

from __future__ import annotations

from collections.abc import Sequence

from entropycache.config import PLAIN, GenerationConfig
from entropycache.engine import Engine
from entropycache.problems import HeldOut, with_examples

STOPPED = GenerationConfig.of(PLAIN, early_stop=True)
"""Plain decoding with early stop, which changes its cost alone, never its text."""


def solved(
    engine: Engine,
    problems: Sequence[HeldOut],
    config: GenerationConfig = STOPPED,
    shots: Sequence[HeldOut] = (),
) -> int:
    """How many problems are solved; ``shots`` are worked examples put in front of each as earlier
    turns.
    """
    prompts = [with_examples(problem, shots) for problem in problems]
    done = engine.generate(prompts, config, batch_size=16)
    assert isinstance(done, list)
    return sum(p.solved_by(c.text) for p, c in zip(problems, done, strict=True))
