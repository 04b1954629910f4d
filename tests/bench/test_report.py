"""Reported numbers: each candidate beside its own baseline, and no speed without tokens."""

from __future__ import annotations

from dataclasses import replace

from entropycache import GenerationConfig
from entropycache.bench.comparison import Candidate, Case, interleave
from entropycache.bench.report import numbers
from tests.bench.tools import SHORT


def test_models_and_lengths_are_compared_with_their_own(engines):
    candidates = [
        Candidate(
            f"{policy} {family} {length}",
            engines(family),
            replace(SHORT, policy=policy, gen_length=length),
        )
        for family in ("llada", "dream")
        for length in (8, 16)
        for policy in ("none", "entropy")
    ]
    found = numbers(list(interleave(candidates, [Case([1, 2]), Case([3])]))[-1])
    for name, row in found.items():
        policy, family, length = name.split()
        assert row["compared_with"] == f"none {family} {length}"
        assert policy != "none" or row["speed_up"] == 1 and row["same_answer_percent"] == 100
    assert found["entropy llada 16"]["same_answer_percent"] < 100, "ids, not text, are compared"


def test_answers_of_no_tokens_have_no_speed(tiny):
    ends = GenerationConfig(gen_length=8)
    candidates = [Candidate(p, tiny, replace(ends, policy=p)) for p in ("none", "entropy")]
    found = numbers(list(interleave(candidates, [Case([3, 4, 5]), Case([3, 4, 5])]))[-1])
    assert found["none"]["answer_tokens"] == 0, "this prompt is answered by an end token"
    assert found["entropy"]["speed_up"] is None
    assert found["entropy"]["speed_up_interval_95"] is None
    assert found["entropy"]["rows_per_token"] is None
