"""Requests and who runs when: rows that are computed, times that are told, room that is used up."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from entropycache import GenerationConfig
from entropycache.core.steps import Commit, Plan, Reason
from entropycache.engine.scheduler import Scheduler
from entropycache.policies import NoCache

CONFIG = GenerationConfig(policy="none", gen_length=4, tokens_per_step=1, early_stop=False)


@pytest.mark.parametrize(("family", "source"), [("llada", 3), ("dream", 2)])
def test_what_is_predicted_is_computed_however_little_is_left_out(engines, family, source):
    """A pass that refreshes all but one position, which is the one that is predicted from."""
    engine = engines(family)
    request = engine.request(0, [1, 2], CONFIG)
    rest = np.array([i for i in range(6) if i != source])
    everything = Plan(np.array([3]), np.arange(6), Reason.FIRST)
    engine.runner.forward([request], [everything])
    (found,) = engine.runner.forward([request], [Plan(np.array([3]), rest, Reason.PARTIAL)])
    assert found.rows.tolist() == list(range(6))
    assert found.work == 6
    engine.runner.close(request)


def test_a_request_starts_when_it_runs_not_when_it_is_made(engines, monkeypatch):
    now = [10.0]
    monkeypatch.setattr("entropycache.engine.scheduler.time.perf_counter", lambda: now[0])
    engine = engines("llada")
    requests = [engine.request(i, [1], CONFIG) for i in range(2)]
    scheduler = Scheduler(engine.runner, size=1, requests=requests)
    now[0] = 20.0
    scheduler.admit()
    now[0] = 23.0
    assert requests[0].complete().seconds == 3
    requests[0].sequence.done = True
    assert list(scheduler.retire()) == requests[:1]
    scheduler.admit()
    now[0] = 24.0
    assert requests[1].complete().seconds == 1


def test_a_request_that_fits_exactly_is_let_in(engines):
    engine = engines("llada")
    requests = [engine.request(i, [1] * n, CONFIG) for i, n in enumerate((6, 6, 1))]
    scheduler = Scheduler(engine.runner, size=3, positions=20, requests=requests)
    scheduler.admit()
    assert scheduler.running == requests[:2], "10 and 10 of 20 positions"
    assert scheduler.waiting == 1


def test_what_an_early_end_leaves_over_is_filled_with_the_smallest_end_token(engines, monkeypatch):
    engine = engines("llada")
    monkeypatch.setattr(engine.tokenizer, "end_ids", frozenset({150, 120, 130}))
    request = engine.request(0, [1], CONFIG)
    assert request.complete().token_ids == [120] * 4


def test_infilled_positions_count_from_the_first_of_the_canvas(engines):
    engine = engines("llada")
    mask = engine.tokenizer.mask_id
    done = engine.infill([5, 6, mask, 7, mask], policy="none", tokens_per_step=1)
    assert sorted(sum(done.commits, [])) == [2, 4]


def test_a_completion_counts_full_passes_apart_and_the_rows_of_all(engines):
    """Of 3 + 4 positions: all at first, then the window's masks and the commit before."""
    done = engines("llada").generate([1, 2, 3], CONFIG, policy="entropy:tau=99,k=1")
    assert (done.forwards, done.full_passes) == (4, 1)
    assert done.rows_computed == 7 + (3 + 1) + (2 + 1) + (1 + 1)


def test_the_window_of_an_answer_that_may_stop_early_ends_at_its_end_token(engines):
    for early, expected in ((True, [1, 2]), (False, [1, 2, 3, 4])):
        request = engines("llada").request(0, [1], CONFIG.merge(early_stop=early))
        request.stopping.note(Commit(np.array([3]), np.array([159]), np.array([0])))
        assert request.window().positions.tolist() == expected


def test_tracked_positions_are_seen_as_the_pass_before_saw_them(engines):
    """Nothing changed between the two passes, so the stored queries and keys say the same."""
    engine, seen = engines("llada"), []

    class Tracking(NoCache):
        watches, keeps = True, frozenset({"queries"})

        def tracked(self, layer):
            return np.array([1, 4]) if len(seen) >= layers else np.empty(0, np.int64)

        def layer(self, layer, rows, weights, before):
            seen.append((weights[:, [1, 4]].clone(), before))
            return False

    layers = engine.network.config.num_hidden_layers
    request = engine.request(0, [1, 2], CONFIG)
    request.policy = Tracking()
    for _ in range(2):
        engine.runner.forward([request], [Plan(np.array([3]), np.arange(6), Reason.EVERY)])
    engine.runner.close(request)
    for (first, nothing), (_, before) in zip(seen[:layers], seen[layers:], strict=True):
        assert nothing is None
        torch.testing.assert_close(before, first)
