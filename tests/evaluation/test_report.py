"""The report: settings are those that were in force."""

from __future__ import annotations

from entropycache import GenerationConfig
from entropycache.evaluation import EntropyCacheLM
from entropycache.evaluation.arguments import request_config
from entropycache.evaluation.report import resolved
from entropycache.models.dream import DREAM
from entropycache.models.llada import LLADA


def test_a_calibrated_policy_is_recorded_as_what_it_stands_for(tiny, monkeypatch):
    monkeypatch.setattr(tiny, "calibrated", "entropy:tau=0.25,k=16")
    lm = EntropyCacheLM(tiny, policy="calibrated")
    assert lm.options == {"policy": "entropy:tau=0.25,k=16"}
    acts = resolved(request_config({}, lm.options), LLADA)
    assert acts["policy_options"]["tau"] == 0.25
    assert (acts["window"], acts["threshold"]) == (32, 0.9)
    assert resolved(GenerationConfig(policy="elastic"), LLADA)["window"] == 16
    assert resolved(GenerationConfig(policy="elastic"), DREAM)["window"] == 32
    assert resolved(GenerationConfig(block_length=8, steps=32), LLADA)["window"] is None
