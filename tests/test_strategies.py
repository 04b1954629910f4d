"""Window rules, commit rules, and how they choose."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from entropycache.plan import Commit, Scores, Window
from entropycache.sequence import Sequence
from entropycache.strategies import Block, Factor, PerStep, Schedule, Sliding, Strategy, Threshold

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
    chosen = Strategy(Sliding(4), PerStep(3)).choose(sequence, window, predict, scores)
    assert chosen.positions.tolist() == [1, 2, 4]
    assert chosen.tokens.tolist() == [5, 6, 8]


def test_only_predicted_window_positions_are_candidates():
    predict = np.array([1, 3, 4])
    scores = Scores(np.array([5, 7, 8]), np.array([0.1, 0.2, 0.9]), lambda i: i)
    window = Window(np.array([1, 2, 3]), (1, 4))
    chosen = Strategy(Sliding(3), PerStep(9)).choose(canvas(1, 4), window, predict, scores)
    assert chosen.positions.tolist() == [1, 3]
    assert chosen.chosen.tolist() == [0, 1]
