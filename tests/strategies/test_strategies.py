"""Window rules, commit rules, and how they choose."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entropycache.config.generation import GenerationConfig
from entropycache.core.certainty_density import certainty_density
from entropycache.core.sequence import Sequence
from entropycache.core.steps import Commit, Scores, Window
from entropycache.errors import OptionError
from entropycache.strategies import (
    Block,
    ByConfidence,
    DreamOrigin,
    DreamSchedule,
    EntropyBound,
    Factor,
    LeftToRight,
    Noisy,
    PerStep,
    Random,
    Schedule,
    Sliding,
    Strategy,
    Threshold,
    WholeCanvas,
    make_strategy,
)

MASK = 9


def canvas(prompt: int, masks: int) -> Sequence:
    return Sequence(np.array([1] * prompt + [MASK] * masks), MASK, prompt)


def fill(sequence: Sequence, *positions: int) -> None:
    found = np.array(positions, np.int64)
    sequence.apply(Commit(found, np.full(len(found), 2), np.arange(len(found))))


def test_a_block_is_finished_before_the_next_begins():
    sequence = canvas(5, 10)
    assert Block(4).window(sequence).positions.tolist() == [5, 6, 7, 8]
    fill(sequence, 5, 6, 8)
    window = Block(4).window(sequence)
    assert (window.positions.tolist(), window.span) == ([7], (5, 9))
    fill(sequence, 7, 9, 10, 11, 12)
    window = Block(4).window(sequence)
    assert (window.positions.tolist(), window.span) == ([13, 14], (13, 15)), "a short last block"


def test_a_sliding_window_takes_the_leftmost_masks():
    sequence = canvas(2, 8)
    fill(sequence, 3, 6)
    window = Sliding(4).window(sequence)
    assert (window.positions.tolist(), window.span) == ([2, 4, 5, 7], (2, 10))


def test_given_tokens_in_the_region_are_never_in_a_window():
    sequence = Sequence(np.array([1, MASK, 3, MASK]), MASK, 0)
    assert Sliding(9).window(sequence).positions.tolist() == [1, 3]
    assert Block(2).window(sequence).positions.tolist() == [1]


def count(rule, *confidence: float) -> int:
    sequence = canvas(0, len(confidence))
    return rule.count(np.array(confidence), sequence, Block(len(confidence)).window(sequence))


def test_threshold_takes_all_that_reach_it_and_at_least_one():
    assert count(Threshold(0.9), 0.95, 0.9, 0.89) == 2
    assert count(Threshold(0.9), 0.2, 0.1) == 1
    assert count(Threshold(1.0), 1.0, 1.0, 0.99) == 2


def test_factor_ends_at_the_first_failure():
    # Limits for factor 1: 0.5, 0.667, 0.75, 0.8.
    assert count(Factor(1.0), 0.9, 0.7, 0.76, 0.79) == 3
    assert count(Factor(1.0), 0.9, 0.6, 0.9, 0.9) == 1
    assert count(Factor(1.0), 0.1, 0.1) == 1
    assert count(Factor(1.0), *[0.99] * 8) == 8, "the official rule; d2Cache takes 7"


def test_per_step_takes_what_the_window_holds():
    assert count(PerStep(3), 0.1, 0.1) == 2


def run_schedule(steps_per_block: int, masks: int, block: int, windows=None) -> list[int]:
    sequence, rule = canvas(0, masks), Schedule(steps_per_block)
    windows = windows or Block(block)
    taken = []
    while not sequence.done:
        window = windows.window(sequence)
        n = rule.count(np.full(len(window.positions), 0.5), sequence, window)
        fill(sequence, *window.positions[:n].tolist())
        taken.append(n)
    return taken


def test_the_schedule_spreads_a_block_over_its_steps_with_the_rest_in_front():
    assert run_schedule(4, 10, 10) == [3, 3, 2, 2]
    assert run_schedule(2, 8, 4) == [2, 2, 2, 2]
    assert run_schedule(3, 7, 5) == [2, 2, 1, 1, 1]


def test_a_block_with_fewer_masks_than_steps_ends_early():
    assert run_schedule(5, 3, 3) == [1, 1, 1]


@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 60))
def test_a_schedule_under_any_window_ends_within_masks_or_steps(masks, width, steps):
    taken = run_schedule(steps, masks, masks, Sliding(width))
    assert sum(taken) == masks
    assert len(taken) <= max(masks, steps)


def test_ties_go_to_the_first_position_and_commits_are_ascending():
    sequence = canvas(1, 4)
    predict = np.array([1, 2, 3, 4])
    scores = Scores(np.array([5, 6, 7, 8]), np.array([0.4, 0.9, 0.4, 0.9]), lambda i: i)
    window = Window(predict, (1, 5))
    chosen = Strategy(Sliding(4), ByConfidence(), PerStep(3)).choose(
        sequence, window, predict, scores
    )
    assert chosen.positions.tolist() == [1, 2, 4]
    assert chosen.tokens.tolist() == [5, 6, 8]


def test_only_predicted_window_positions_are_candidates():
    predict = np.array([1, 3, 4])
    scores = Scores(np.array([5, 7, 8]), np.array([0.1, 0.2, 0.9]), lambda i: i)
    window = Window(np.array([1, 2, 3]), (1, 4))
    chosen = Strategy(Sliding(3), ByConfidence(), PerStep(9)).choose(
        canvas(1, 4), window, predict, scores
    )
    assert chosen.positions.tolist() == [1, 3]
    assert chosen.chosen.tolist() == [0, 1]


def test_the_density_is_the_gaussian_sum_of_its_definition():
    """Against the double sum, whose kernel covers distances up to three regions and sums to one."""
    generator = np.random.default_rng(0)
    for size, sigma in ((1, 2.0), (5, 1.0), (32, 10.0), (64, 40.0)):
        for decoded in (generator.random(size) < 0.5, np.zeros(size, bool), np.ones(size, bool)):
            signal = {i: float(decoded[i]) for i in range(size)}
            signal |= {i: 1.0 for i in range(-size, 0)}
            signal |= {i: float(decoded[-1]) for i in range(size, 2 * size)}
            kernel = {d: np.exp(-(d**2) / (2 * sigma**2)) for d in range(-3 * size, 3 * size)}
            norm = sum(kernel.values())
            expected = [
                sum(e * kernel[i - j] for j, e in signal.items()) / norm for i in range(size)
            ]
            np.testing.assert_allclose(certainty_density(decoded, sigma), expected, atol=1e-12)


def test_the_density_of_an_empty_region_falls_from_the_left_edge():
    found = certainty_density(np.zeros(512, bool), 10.0)
    np.testing.assert_allclose(found[:3], [0.48, 0.44, 0.40], atol=5e-3)
    assert (np.diff(found[:60]) < 0).all()


def test_sigma_ranks_by_the_product_and_the_rule_sees_it():
    sequence = canvas(3, 64)
    predict = sequence.masked()
    confidence = np.full(64, 0.95)
    scores = Scores(np.full(64, 5), confidence, lambda i: i)
    window = Block(64).window(sequence)
    taken = Strategy(Block(64), ByConfidence(10.0), PerStep(3)).choose(
        sequence, window, predict, scores
    )
    assert taken.positions.tolist() == [3, 4, 5]
    alone = Strategy(Block(64), ByConfidence(10.0), Threshold(0.9)).choose(
        sequence, window, predict, scores
    )
    assert alone.positions.tolist() == [3], "no product reaches the threshold"


def test_the_entropy_bound_leaves_the_largest_out_of_the_sum():
    assert count(EntropyBound(0.5), -0.1, -0.3, -0.9, -2.0) == 3  # 0.1 + 0.3 <= 0.5 < 1.3
    assert count(EntropyBound(0.39), -0.1, -0.3, -0.9, -2.0) == 2
    assert count(EntropyBound(0.0), -0.1, -0.3) == 1
    assert count(EntropyBound(0.0), 0.0, 0.0, -0.2, -0.3) == 3


def run_dream(steps: int, masks: int) -> list[int]:
    sequence, rule, taken = canvas(0, masks), DreamSchedule(steps), []
    while not sequence.done:
        window = Block(masks).window(sequence)
        taken.append(rule.count(np.ones(len(window.positions)), sequence, window))
        fill(sequence, *window.positions[: taken[-1]].tolist())
    return taken


def test_dreams_schedule_is_the_published_one():
    for length in (128, 256, 512, 768):
        assert run_dream(length, length) == [0, *[1] * (length - 2), 2]
    longest = run_dream(1024, 1024)
    assert (longest.count(0), longest[-1], set(longest[:-1])) == (2, 3, {0, 1})
    assert run_dream(128, 256) == [1, *[2] * 126, 3]
    assert run_dream(64, 256) == [3, *[4] * 62, 5]


def test_dreams_origin_commits_each_mask_alike():
    """After half of the time half of the masks are left, on average, whatever the scores."""
    rng, left = np.random.default_rng(0), []
    for seed in range(200):
        sequence, rule = canvas(0, 40), DreamOrigin(10, seed)
        for _ in range(5):
            window = Block(40).window(sequence)
            number = rule.count(np.ones(len(window.positions)), sequence, window)
            fill(sequence, *sorted(rng.permutation(window.positions)[:number].tolist()))
        left.append(len(sequence.masked()))
    assert abs(np.mean(left) - 20) < 1
    assert np.std(left) > 2


def test_orders_drawn_in_advance_say_what_is_committed_before_the_pass():
    sequence = canvas(2, 12)
    for order in (Random(3), LeftToRight()):
        strategy, seen = Strategy(Block(6), order, PerStep(2)), []
        sequence = canvas(2, 12)
        while not sequence.done:
            window = strategy.window(sequence)
            predict = window.positions
            scores = Scores(np.full(len(predict), 5), np.zeros(len(predict)), lambda i: i)
            chosen = strategy.choose(sequence, window, predict, scores)
            assert chosen.positions.tolist() == window.upcoming.tolist()
            seen += chosen.positions.tolist()
            sequence.apply(chosen)
        assert sorted(seen) == list(range(2, 14))
        assert sorted(seen[:6]) == list(range(2, 8)), "blocks are kept"
        assert (seen == sorted(seen)) == isinstance(order, LeftToRight)


def test_noisy_orders_draw_by_the_softmax_of_confidence():
    confidence = np.array([0.9, 0.5, 0.1])
    order, firsts = Noisy(0.4, 0), np.zeros(3)
    for _ in range(4000):
        firsts[order.rank(canvas(0, 3), np.arange(3), confidence).argmax()] += 1
    expected = np.exp(confidence / 0.4) / np.exp(confidence / 0.4).sum() * 4000
    assert ((firsts - expected) ** 2 / expected).sum() < 18.4  # the 99.99 % quantile for 2 degrees


@pytest.mark.parametrize(
    ("options", "kind", "order"),
    [
        ({"steps": 8, "alg": "maskgit_plus"}, DreamSchedule, ByConfidence),
        ({"steps": 8, "alg": "topk_margin"}, DreamSchedule, ByConfidence),
        ({"steps": 8, "alg": "entropy", "alg_temp": 0.3}, DreamSchedule, Noisy),
        ({"steps": 8, "alg": "entropy", "alg_temp": 0}, DreamSchedule, ByConfidence),
        ({"steps": 8, "alg": "origin"}, DreamOrigin, Random),
        ({"eb_gamma": 0.1}, EntropyBound, ByConfidence),
        ({"steps": 8, "order": "random"}, Schedule, Random),
        ({"tokens_per_step": 2, "order": "left-to-right"}, PerStep, LeftToRight),
    ],
)
def test_options_name_the_rules(options, kind, order):
    made = make_strategy(GenerationConfig().merge(gen_length=16, **options))
    assert type(made.commits) is kind
    assert type(made.order) is order
    assert isinstance(made.windows, WholeCanvas if "alg" in options else Sliding)


@pytest.mark.parametrize(
    ("options", "ranked", "tempered"),
    [
        ({"steps": 8, "alg": "entropy"}, "entropy", True),
        ({"steps": 8, "alg": "topk_margin"}, "margin", True),
        ({"steps": 8, "alg": "maskgit_plus"}, "probability", True),
        ({"eb_gamma": 0.1}, "entropy", False),
        ({"steps": 8, "confidence": "margin"}, "margin", False),
        ({}, "probability", False),
    ],
)
def test_options_name_what_is_ranked_by(options, ranked, tempered):
    sampling = GenerationConfig().merge(gen_length=16, **options).sampling
    assert (sampling.confidence, sampling.tempered) == (ranked, tempered)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"alg": "entropy"}, "needs steps"),
        ({"alg": "entropy", "steps": 4, "window": 8}, "whole canvas, which has no window"),
        ({"alg": "origin", "steps": 4, "block_length": 8}, "which has no block_length"),
        ({"alg": "entropie", "steps": 4}, "one of origin, maskgit_plus, topk_margin, entropy"),
        ({"alg_temp": 0.1, "steps": 4}, "alg_temp goes with"),
        ({"alg": "origin", "alg_temp": 0.1, "steps": 4}, "alg_temp goes with"),
        ({"order": "random"}, "needs tokens_per_step or steps"),
        ({"order": "random", "threshold": 0.9}, "needs tokens_per_step or steps"),
        ({"order": "random", "steps": 4, "sigma": 3.0}, "excludes sigma"),
        ({"alg": "entropy", "steps": 4, "confidence": "margin"}, "excludes confidence"),
        ({"alg": "entropy", "steps": 4, "order": "random"}, "excludes order"),
        ({"eb_gamma": 0.1, "confidence": "margin"}, "excludes confidence"),
        ({"eb_gamma": 0.1, "threshold": 0.9}, "exclude each other"),
        ({"eb_gamma": -1}, "0 or more nats"),
        ({"sigma": 0.0}, "sigma must be above 0"),
        ({"sigma": 2.0, "confidence": "entropy", "tokens_per_step": 1}, "no threshold, factor or"),
    ],
)
def test_what_would_be_ignored_or_ranks_the_wrong_way_is_refused(options, said):
    with pytest.raises(OptionError, match=said):
        GenerationConfig().merge(**options)


@pytest.mark.parametrize("rule", [Block(8), Sliding(5)], ids=str)
def test_nothing_behind_the_first_end_token_is_offered(rule):
    sequence = canvas(2, 8)
    assert rule.window(sequence, 5).positions.tolist() == [2, 3, 4]
    assert rule.window(sequence, None).positions.tolist()[-1] > 4


def test_dreams_sampler_keeps_the_whole_canvas_in_view():
    assert WholeCanvas().window(canvas(2, 8), 5).positions.tolist() == list(range(2, 10))
