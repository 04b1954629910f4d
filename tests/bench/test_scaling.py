"""Scaling: full steps are told from partial ones, and their parts make the whole."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest
import torch

from entropycache.bench.random_models import HALF_BILLION, SHAPES, random_engine
from entropycache.bench.scaling import scale
from entropycache.errors import OptionError


def test_scaling_tells_full_from_partial_steps(monkeypatch):
    small = replace(
        HALF_BILLION,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=8,
        intermediate_size=64,
    )
    named = {"small": (replace(small, vocab_size=300), SHAPES["llada-8b"][1])}
    monkeypatch.setattr("entropycache.bench.random_models.SHAPES", named)
    engine = random_engine("small", dtype=torch.float32)
    ticks = count()  # a clock that the load of the machine does not reach
    monkeypatch.setattr("entropycache.engine.timing.time.perf_counter", lambda: next(ticks) / 1000)
    rows = list(scale(engine, [300, 500], steps=3))
    assert [(r["policy"], r["canvas"]) for r in rows] == [
        (policy, canvas) for canvas in (300, 500) for policy in ("none", "entropy:tau=1e9")
    ]
    assert [r["rows"] for r in rows] == [300, 96, 500, 96], "window 32 and k 64"
    for row in rows:
        parts = row["network_ms"] + row["decision_ms"] + row["sampling_ms"] + row["engine_ms"]
        assert parts == pytest.approx(row["step_ms"], rel=0.5)
        assert row["bare_ms"] > 0
    assert next(scale(engine, [256], steps=2))["rows"] == 256, "no prompt at all"
    with pytest.raises(OptionError, match="at least its 256"):
        list(scale(engine, [255]))
    with pytest.raises(OptionError, match="at most 47 steps"):
        list(scale(engine, [300], steps=48))
