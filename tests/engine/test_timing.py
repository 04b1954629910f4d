"""Every part of a step is charged with its own time, whoever spends it. Time is told, not measured:
the clock of these tests stands still but for what a test lets pass.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch

from entropycache import GenerationConfig
from entropycache.engine.engine import Engine
from entropycache.engine.loop import decode
from entropycache.engine.timing import MEASURING, PARTS, NullRecorder, Recorder
from entropycache.policies import NoCache, Policy
from entropycache.policies.dllm import DLLMCache
from entropycache.strategies import Strategy

CONFIG = GenerationConfig(
    policy="none", gen_length=6, tokens_per_step=1, window=6, early_stop=False
)
STEPS = 6


class Clock:
    """A clock that stands still until somebody spends time."""

    def __init__(self) -> None:
        self.now = 0.0

    def spend(self, milliseconds: float) -> None:
        self.now += milliseconds / 1000


@pytest.fixture
def clock(monkeypatch) -> Clock:
    told = Clock()
    monkeypatch.setattr("entropycache.engine.timing.time.perf_counter", lambda: told.now)
    return told


def milliseconds(engine: Engine, policy: Policy) -> dict[str, float]:
    """Time by part of one decoded request, a step's share of it."""
    request = engine.request(0, [1, 2, 3], CONFIG)
    request.policy = policy
    recorder = Recorder(torch.device("cpu"))
    with engine.recording(recorder), recorder.part("engine"):
        assert len(list(decode([request], engine.runner))) == STEPS
    assert type(engine.runner.recorder) is NullRecorder
    return {name: round(1000 * s / STEPS, 6) for name, s in recorder.seconds.items()}


def test_a_policy_that_sleeps_5_ms_a_decision_is_charged_5_ms_a_decision(engines, clock):
    class Slow(NoCache):
        def plan(self, sequence, window):
            clock.spend(4)
            return super().plan(sequence, window)

        def observe(self, sequence, step):
            clock.spend(1)

    found = milliseconds(engines("llada"), Slow())
    assert found == {**dict.fromkeys(PARTS, 0.0), MEASURING: 0.0, "decision": 5.0}


def test_the_choice_of_rows_is_the_decisions(engines, clock, monkeypatch):
    engine = engines("llada")
    own = engine.family.prediction_rows

    def slow(positions):
        clock.spend(2)
        return own(positions)

    monkeypatch.setattr(engine.runner, "family", replace(engine.family, prediction_rows=slow))
    assert milliseconds(engine, NoCache())["decision"] == 2.0


def test_the_union_of_rows_is_the_decisions(engines, clock, monkeypatch):
    from entropycache.engine import runner

    union = runner._union

    def slow(*arguments):
        clock.spend(2)
        return union(*arguments)

    monkeypatch.setattr(runner, "_union", slow)
    assert milliseconds(engines("llada"), NoCache())["decision"] == 2.0


def test_windows_and_the_choice_of_tokens_are_samplings(engines, clock, monkeypatch):
    window, choose = Strategy.window, Strategy.choose

    def slow_window(*arguments):
        clock.spend(3)
        return window(*arguments)

    def slow_choose(*arguments):
        clock.spend(4)
        return choose(*arguments)

    monkeypatch.setattr(Strategy, "window", slow_window)
    assert milliseconds(engines("llada"), NoCache())["sampling"] == 3.0
    monkeypatch.setattr(Strategy, "choose", slow_choose)
    assert milliseconds(engines("llada"), NoCache())["sampling"] == 7.0


def test_looks_into_a_pass_are_the_decisions(engines, clock):
    engine = engines("llada")

    @dataclass
    class Watching(NoCache):
        watches = True
        keeps = frozenset({"queries"})

        def tracked(self, layer):
            clock.spend(3)
            return super().tracked(layer)

        def layer(self, layer, rows, weights, before):
            clock.spend(1)
            return False

    layers = engine.network.config.num_hidden_layers
    assert milliseconds(engine, Watching())["decision"] == 4.0 * layers


def test_attention_weights_cost_what_they_take_beyond_fused_attention(engines, clock, monkeypatch):
    from entropycache.engine import batch

    engine = engines("llada")
    weights, fused, mix = batch.attention_weights, batch.attention, batch.mix

    def slow(q, keys):
        clock.spend(5)
        return weights(q, keys)

    def quick(q, keys, values):
        clock.spend(2)
        return fused(q, keys, values)

    monkeypatch.setattr(batch, "attention_weights", slow)
    monkeypatch.setattr(batch, "attention", quick)

    class Watching(NoCache):
        watches = True

    layers = engine.network.config.num_hidden_layers
    found = milliseconds(engine, Watching())
    assert (found["decision"], found["network"], found[MEASURING]) == (
        *(3.0 * layers, 2.0 * layers, 2.0 * layers),
    )
    assert milliseconds(engine, NoCache())["network"] == 2.0 * layers

    def slow_mix(weights, values):
        clock.spend(1)
        return mix(weights, values)

    monkeypatch.setattr(batch, "mix", slow_mix)
    assert milliseconds(engine, Watching())["decision"] == (5.0 + 1.0 - 2.0) * layers


def test_kept_inputs_and_drifted_values_are_the_decisions(engines, clock, monkeypatch):
    from entropycache.engine.batch import RaggedBatch
    from entropycache.engine.feature_pass import DLLMCachePass

    engine = engines("llada")
    layers = engine.network.config.num_hidden_layers
    kept, drifted = RaggedBatch._keep_inputs, DLLMCachePass._drifted

    def slow(original):
        def spend(*arguments):
            clock.spend(7)
            return original(*arguments)

        return spend

    monkeypatch.setattr(RaggedBatch, "_keep_inputs", slow(kept))
    monkeypatch.setattr(DLLMCachePass, "_drifted", slow(drifted))

    class Keeping(NoCache):
        watches = True
        keeps = frozenset({"inputs"})

    # The first step is whole: a slot holds anything before it is written.
    drifting = milliseconds(engine, DLLMCache(kp=STEPS, kr=STEPS, rou=0.25))
    assert milliseconds(engine, Keeping())["decision"] == 7.0 * layers
    assert drifting["decision"] == round(7.0 * (layers - 1) * (STEPS - 1) / STEPS, 6)


def test_network_and_sampling_have_their_own(engines, clock, monkeypatch):
    from entropycache.engine import runner

    engine = engines("llada")
    head, score = engine.network.logits, runner.score

    def slow_head(hidden):
        clock.spend(11)
        return head(hidden)

    def slow_score(*arguments):
        clock.spend(13)
        return score(*arguments)

    monkeypatch.setattr(engine.network, "logits", slow_head)
    monkeypatch.setattr(runner, "score", slow_score)
    found = milliseconds(engine, NoCache())
    assert found == {
        **dict.fromkeys(PARTS, 0.0),
        MEASURING: 0.0,
        "network": 11.0,
        "sampling": 13.0,
    }
