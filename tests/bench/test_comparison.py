"""Comparing: clocks count every second once and change nothing, and candidates take turns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from entropycache import GenerationConfig
from entropycache.bench import comparison
from entropycache.bench.cases import problem_cases
from entropycache.bench.comparison import Candidate, Case, Result, interleave
from entropycache.engine.timing import PARTS, NullRecorder, Recorder
from tests.bench.tools import SHORT

POLICIES = ("none", "entropy", "d2", "elastic", "dllm", "fast-dual", "dkv-decode")


@pytest.fixture
def seconds(monkeypatch):
    """A clock that is told what time it is."""
    now = [0.0]
    monkeypatch.setattr("entropycache.engine.timing.time.perf_counter", lambda: now[0])
    return now


def test_time_within_a_part_is_counted_once_as_the_inner_ones(seconds):
    clock = Recorder(torch.device("cpu"))
    with clock.part("engine"):
        seconds[0] += 1
        with clock.part("network"):
            seconds[0] += 2
            with clock.part("decision"):
                seconds[0] += 4
            seconds[0] += 8
        seconds[0] += 16
    seconds[0] += 32
    assert clock.seconds["engine"] == 17
    assert clock.seconds["network"] == 10
    assert clock.seconds["decision"] == 4
    assert clock.total == 31


@pytest.mark.parametrize("policy", POLICIES)
def test_a_watched_run_decodes_the_same_and_leaves_nothing_behind(policy, engines):
    engine = engines("llada", "float32")
    config = replace(SHORT, policy=policy)
    row = Result(Candidate("watched", engine, config))
    row.add(Case([1, 2, 3]))
    assert type(engine.runner.recorder) is NullRecorder
    assert row.done[0].token_ids == engine.generate([1, 2, 3], config).token_ids
    assert row.done[0].seconds == pytest.approx(sum(row.parts[0][part] for part in PARTS))
    assert min(row.parts[0].values()) >= 0
    assert row.parts[0]["network"] > 0
    assert row.parts[0]["decision"] > 0


def test_every_case_meets_every_arm_and_arms_take_turns(engines, monkeypatch):
    engine = engines("llada", "float32")
    seen = []
    original = comparison._decoded

    def noted(candidate, case, clock):
        seen.append((candidate.name, case.prompt[0]))
        return original(candidate, case, clock)

    monkeypatch.setattr(comparison, "_decoded", noted)
    candidates = [
        Candidate(name, engine, replace(SHORT, policy=name)) for name in ("none", "entropy")
    ]
    rows = list(interleave(candidates, [Case([i]) for i in (1, 2, 3)]))[-1]
    counted = seen[2:]
    assert counted == [
        *(("none", 1), ("entropy", 1)),
        *(("entropy", 2), ("none", 2)),
        *(("none", 3), ("entropy", 3)),
    ], "the first two only warm up"
    assert [len(row.done) for row in rows] == [3, 3]


def test_numbers_of_an_arm_beside_itself(tiny):
    candidate = Candidate("none", tiny, GenerationConfig(policy="none", gen_length=64))
    cases = problem_cases(["aiw", "products"], 4)
    (row,) = list(interleave([candidate], cases))[-1]
    found = row.numbers(row)
    assert found["speed_up"] == 1
    assert found["speed_up_interval_95"] == (1, 1)
    assert found["same_answer_percent"] == 100
    solved = sum(c.problem.solved_by(d.text) for c, d in zip(cases, row.done, strict=True))
    assert found["accuracy_percent"] == 25 * solved
    assert found["forwards"] == found["full_passes"] == np.mean([d.forwards for d in row.done])
    tokens = sum(d.answer_tokens for d in row.done)
    assert found["rows_per_token"] == round(sum(d.rows_computed for d in row.done) / tokens, 2)
    assert sum(found["time_percent"].values()) == pytest.approx(100, abs=0.1)
    assert set(row.by_group()) == {"aiw", "products"}
