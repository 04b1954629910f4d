"""Requests and who runs when: rows that are computed, times that are told, room that is used up."""

from __future__ import annotations

import numpy as np
import pytest

from entropycache import GenerationConfig
from entropycache.core.steps import Plan, Reason
from entropycache.engine.scheduler import Scheduler

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
