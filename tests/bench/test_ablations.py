"""Ablations: each changes one setting, and each signal is what its name says."""

from __future__ import annotations

import numpy as np
import pytest

from entropycache import GenerationConfig
from entropycache.bench import ablations
from entropycache.core.steps import Commit, Scores, Step
from entropycache.errors import OptionError
from entropycache.io.problems import held_out
from entropycache.policies.entropy import SIGNALS


def test_ablations_change_one_setting_each():
    base = GenerationConfig(threshold=0.8, window=16)
    curves = ablations.points(base)
    assert {p.curve.split()[0] for p in curves} == {"tau", "k", "window", "signal"}
    for point in curves:
        assert point.base.policy == "none"
        assert point.config.threshold == 0.8
        assert point.config.window == (int(point.x) if point.curve == "window" else 16)
        assert point.config.window == point.base.window
    defaults = [p for p in curves if p.default]
    assert {p.curve for p in defaults} == {"tau", "k", "window", "signal max"}
    configs = [c.config for c in ablations.candidates(None, curves)]
    assert len(configs) == len(set(configs)) and configs[0].policy == "none"


def test_signals_agree_where_one_token_is_committed(tiny):
    chat = held_out("products")[0].chat
    options = {"gen_length": 48, "tokens_per_step": 1}
    largest, mean = (
        tiny.generate(chat, policy=f"entropy:tau=0.05,signal={s}", **options)
        for s in ("max", "mean")
    )
    assert largest.full_passes == mean.full_passes and largest.commits == mean.commits
    always = tiny.generate(chat, policy="entropy:tau=-1,signal=confidence", **options)
    never = tiny.generate(chat, policy="entropy:tau=1,signal=confidence", **options)
    assert always.full_passes == always.forwards and never.full_passes == 1
    with pytest.raises(OptionError, match="signal must be max, mean, confidence, not 'median'"):
        tiny.generate(chat, policy="entropy:signal=median")


def test_each_signal_is_what_its_name_says():
    scores = Scores(np.arange(3), np.array([0.9, 0.2, 0.6]), lambda i: np.array([0.1, 2.0, 0.4])[i])
    commit = Commit(np.array([4, 6]), np.array([0, 2]), np.array([0, 2]))
    step = Step(0, 0, None, None, scores, commit, np.arange(3), 3.0, False)
    found = {name: signal(step) for name, signal in SIGNALS.items()}
    assert found == pytest.approx({"max": 0.4, "mean": 0.25, "confidence": 0.4})
