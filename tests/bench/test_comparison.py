"""Comparing: clocks count every second once and change nothing, and candidates take turns."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from entropycache import GenerationConfig
from entropycache.bench import comparison
from entropycache.bench.comparison import Candidate, Case, Result, interleave
from entropycache.engine.output import Completion
from entropycache.engine.timing import PARTS, NullRecorder, Recorder
from entropycache.io.problems import held_out
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


def result(engine, name: str, *done: Completion, **parts: float) -> Result:
    """A result of cases that were solved where the text says so."""
    found = Result(Candidate(name, engine, GenerationConfig(policy=name)))
    problems = [held_out("aiw")[0], held_out("products")[0]]
    found.cases = [Case(p.question, p) for p in problems]
    found.done, found.parts = list(done), [dict.fromkeys(PARTS, 0.0) | parts] * 2
    return found


def test_numbers_are_those_of_the_completions_done_by_hand(tiny):
    right = held_out("aiw")[0].response
    plain = result(
        *(tiny, "none"),
        Completion([1, 2, 9], right, "stop", 3, 3, 300, [[0], [1], [2]], 2.0, 0, 2, 50),
        Completion([1, 2, 3], "no idea", "stop", 5, 5, 500, [[0], [1], [2]], 3.0, 0, 3, 70),
        network=3.0,
        sampling=1.0,
    )
    cached = result(
        *(tiny, "entropy"),
        Completion([1, 2, 8], right, "stop", 1, 1, 100, [[0, 1, 2]], 0.5, 0, 2, 50),
        Completion([1, 7, 3], right, "stop", 2, 1, 150, [[0, 1], [2]], 0.75, 0, 3, 70),
        network=1.0,
        decision=1.0,
    )
    found = cached.numbers(plain)
    assert {name: found[name] for name in ("policy", "compared_with", "cases")} == {
        **{"policy": "entropy", "compared_with": "none", "cases": 2}
    }
    assert (found["accuracy_percent"], plain.numbers(plain)["accuracy_percent"]) == (50, 50)
    assert found["same_answer_percent"] == 50, "behind the two tokens of the first nothing counts"
    assert (found["tokens_per_second"], found["canvas_tokens_per_second"]) == (4.0, 4.8)
    assert (found["speed_up"], found["speed_up_interval_95"]) == (4.0, (4.0, 4.0))
    assert found["seconds_quartiles"] == [0.5625, 0.625, 0.6875]
    assert (found["prompt_tokens"], found["answer_tokens"]) == (60, 2.5)
    assert (found["tokens_per_step"], found["rows_per_token"]) == (2.0, 50.0)
    assert (found["forwards"], found["full_passes"]) == (1.5, 1.0)
    shares = dict.fromkeys(PARTS, 0.0)
    assert found["time_percent"] == shares | {"network": 50.0, "decision": 50.0}
    assert plain.numbers(cached)["speed_up"] == 0.25
    assert plain.numbers(cached)["time_percent"] == shares | {"network": 75.0, "sampling": 25.0}
    assert cached.by_group() == {"aiw": "1 of 1", "products": "0 of 1"}
