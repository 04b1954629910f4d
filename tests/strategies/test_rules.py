"""Choices that hang on a detail: ties, seeds, places in a region, shares of the steps."""

from __future__ import annotations

import numpy as np
import pytest

from entropycache import GenerationConfig
from entropycache.core.sequence import Sequence
from entropycache.core.steps import Scores
from entropycache.strategies import (
    ByConfidence,
    DreamOrigin,
    PerStep,
    Random,
    Sliding,
    Strategy,
    make_strategy,
)

MASK = 9


def canvas(prompt: int, masks: int) -> Sequence:
    return Sequence(np.array([1] * prompt + [MASK] * masks), MASK, prompt)


def test_ties_go_to_the_first_positions_however_many_there_are():
    sequence = canvas(3, 500)
    confidence = np.where(np.arange(500) % 5 == 4, 0.9, 0.1)
    scores = Scores(np.full(500, 5), confidence, lambda i: i)
    strategy = Strategy(Sliding(500), ByConfidence(), PerStep(102))
    chosen = strategy.choose(sequence, strategy.window(sequence), sequence.masked(), scores)
    surest = list(range(7, 503, 5))
    assert chosen.positions.tolist() == sorted([*surest, 3, 4])


def test_the_density_of_a_position_is_its_own_wherever_the_window_lies():
    """A lone decoded token in a long region: nothing is surer than beside it."""
    sequence = canvas(4, 60)
    sequence.canvas[44] = 1  # 40 of the region
    positions = np.array([30, 43, 45, 60])
    ranks = ByConfidence(2.0).rank(sequence, positions, np.ones(4))
    # The kernel of width 2 at distances 14, 1, 1 and 16 from the token.
    kernel = np.exp(-(np.arange(-50, 51) ** 2) / 8).sum()
    expected = np.exp(-(np.array([14, 1, 1, 16]) ** 2) / 8) / kernel
    np.testing.assert_allclose(ranks, expected, atol=1e-9)


@pytest.mark.parametrize(
    "options",
    [
        {"steps": 4, "order": "random"},
        {"steps": 4, "alg": "origin"},
        {"steps": 4, "alg": "entropy", "alg_temp": 0.5},
    ],
    ids=str,
)
def test_seeds_decide_what_is_drawn(options):
    positions, confidence = np.arange(12), np.full(12, 0.5)

    def drawn(seed: int) -> list[float]:
        made = make_strategy(GenerationConfig(gen_length=12, seed=seed, **options))
        return made.order.rank(canvas(0, 12), positions, confidence).tolist()

    assert drawn(3) == drawn(3)
    assert len({tuple(drawn(seed)) for seed in range(5)}) == 5


def test_seeds_decide_how_many_dreams_origin_commits():
    def counts(seed: int) -> list[int]:
        made = make_strategy(GenerationConfig(gen_length=64, steps=8, alg="origin", seed=seed))
        sequence = canvas(0, 64)
        window = made.windows.window(sequence, None)
        return [made.commits.count(np.ones(64), sequence, window) for _ in range(7)]

    assert counts(3) == counts(3)
    assert len({tuple(counts(seed)) for seed in range(5)}) == 5


def test_how_many_dreams_origin_commits_says_nothing_of_which():
    """The draws of the number and of the order are independent: no correlation over seeds."""
    sequence, seeds = canvas(0, 8), range(400)
    window = Sliding(8).window(sequence)
    numbers = [DreamOrigin(2, seed).count(np.ones(8), sequence, window) for seed in seeds]
    firsts = [Random(seed).rank(sequence, window.positions, np.ones(8))[0] for seed in seeds]
    # Beyond 0.2 lies one correlation of 400 independent pairs in 15,000.
    assert abs(np.corrcoef(numbers, firsts)[0, 1]) < 0.2


def test_steps_are_shared_out_among_the_blocks():
    config = GenerationConfig(gen_length=16, block_length=8, steps=8)
    sequence, made = canvas(0, 16), make_strategy(config)
    window = made.windows.window(sequence, None)
    assert made.commits.count(np.ones(8), sequence, window) == 2, "8 masks in 4 steps"
