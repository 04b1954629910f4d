"""Attribution: one ingredient is taken away at a time, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from entropycache import GenerationConfig
from entropycache.bench import attribution
from entropycache.errors import OptionError
from tests.bench.tools import SHORT


def test_taking_one_ingredient_away_takes_that_one(engines):
    engine = engines("llada", "float32")
    config = GenerationConfig(gen_length=24, threshold=0.9, window=32)
    candidates = {candidate.name: candidate for candidate in attribution.candidates(engine, config)}
    plain, cached = candidates["plain"].config, candidates["the cache alone"].config
    assert (plain.policy, plain.tokens_per_step, plain.early_stop) == ("none", 1, False)
    assert (cached.policy, cached.tokens_per_step, cached.early_stop) == ("entropy", 1, False)
    assert candidates["all but early stop"].config == replace(config, early_stop=False)
    assert candidates["all together"].config == config
    assert len(candidates) == 3 + 2 * 3 + 1
    with pytest.raises(OptionError, match="no ingredient"):
        attribution.candidates(engine, plain)


def test_nothing_but_the_ingredient_goes(engines):
    engine = engines("llada", "float32")
    elastic = attribution.candidates(engine, GenerationConfig(gen_length=24, policy="elastic"))
    assert {candidate.config.window for candidate in elastic} == {16}, (
        "the window that Elastic-Cache prefers"
    )
    sampler = attribution.candidates(
        engine, GenerationConfig(gen_length=24, alg="entropy", steps=8)
    )
    assert {candidate.config.steps for candidate in sampler} == {8, 24}
    names = [
        candidate.name
        for candidate in attribution.candidates(engine, GenerationConfig(policy="dllm"))
    ]
    assert "the cache alone" in names and not any("head" in name for name in names)


@pytest.mark.parametrize("family", ["llada", "dream"])
def test_the_whole_head_computes_more_and_answers_the_same(family, engines):
    engine = engines(family, "float32")
    twin = attribution.whole_head(engine)
    rows = []
    original = type(engine.network).logits

    class Counting(type(engine.network)):
        def logits(self, hidden):
            rows.append(len(hidden))
            return original(self, hidden)

    engine.network.__class__, before = Counting, engine.network.__class__
    try:
        small = engine.generate([1, 2, 3], SHORT)
        few, rows[:] = sum(rows), []
        whole = twin.generate([1, 2, 3], SHORT)
    finally:
        engine.network.__class__ = before
    assert whole.token_ids == small.token_ids
    assert sum(rows) == few + whole.rows_computed
