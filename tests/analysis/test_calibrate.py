"""Calibration: the cheapest policy that keeps the agreement it promises."""

from __future__ import annotations

import pytest

from entropycache import GenerationConfig
from entropycache.analysis import calibrate
from entropycache.engine.output import Completion
from entropycache.errors import OptionError
from tests.analysis.tools import ONE
from tests.conftest import FAMILIES


def test_agreement_counts_equal_tokens_of_the_longer_answer():
    plain = Completion(token_ids=[1, 2, 3, 0], answer_tokens=3)
    assert calibrate.agreement(plain, plain) == 1
    assert calibrate.agreement(plain, Completion(token_ids=[1, 2, 9, 9], answer_tokens=4)) == 0.5
    assert calibrate.agreement(Completion(token_ids=[0]), Completion(token_ids=[0])) == 1


@pytest.mark.parametrize("family", FAMILIES)
def test_calibration_chooses_the_cheapest_that_holds(family, engines):
    engine = engines(family, "float64")
    prompts = [[i, i + 1, i + 2] for i in range(3, 15)]
    config = GenerationConfig(gen_length=16, window=8, tokens_per_step=2, early_stop=False)
    found = calibrate.calibrate(engine, prompts, config, target=0.9)
    accepted = [c for c in found.tried if c.agreement_low >= 0.9]
    assert accepted == [c for c in found.tried if c.accepted]
    assert found.chosen.rows_share == min(c.rows_share for c in accepted)
    assert found.tried[0].policy == "entropy:tau=-1,k=64" and found.tried[0].agreement == 1
    again = calibrate.calibrate(engine, prompts, config, target=0.9)
    assert again == found, "rows, not seconds, decide"


def test_an_exact_target_is_met_exactly(engines):
    engine = engines("llada", "float64")
    config = GenerationConfig(gen_length=16, window=8, tokens_per_step=1, early_stop=False)
    prompts = [[i, 5, 6] for i in range(10)]
    found = calibrate.calibrate(engine, prompts, config, target=1.0)
    for prompt in prompts:
        cached = engine.generate(prompt, config, policy=found.policy)
        assert cached.token_ids == engine.generate(prompt, config, policy="none").token_ids


@pytest.mark.parametrize("target", [0, -1, 1.5, float("nan")])
def test_targets_that_make_no_sense(target, engines):
    with pytest.raises(OptionError, match="target agreement"):
        calibrate.calibrate(engines("llada", "float32"), [[1]], ONE, target)
