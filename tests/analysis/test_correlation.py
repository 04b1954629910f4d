"""Correlations: what statistics says they are, with prompts drawn whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from entropycache.analysis import correlation
from entropycache.analysis.drift import Transition


def made(entropy, drift, request=0):
    two = np.array([drift, drift])
    ages, aged = np.array([1, 2]), np.array([0.5, drift])
    return Transition(request, 0, entropy, 0.5, two, two, ages, aged, 0.1)


def test_correlation_of_what_is_known():
    monotone = [made(x, x**3, i % 4) for i, x in enumerate(np.linspace(0.1, 2, 40))]
    found = correlation.correlate(monotone)
    assert found["entropy"]["spearman"]["value"] == 1
    assert found["entropy"]["spearman"]["interval_95"] == [1, 1]
    assert found["entropy"]["pearson_of_logarithms"]["value"] == 1
    assert 0.8 < found["entropy"]["pearson"]["value"] < 1
    assert found["1 - confidence"]["pearson"]["value"] is None, "it does not vary"
    rng = np.random.default_rng(3)
    noise = [made(*rng.random(2), request=i % 10) for i in range(400)]
    low, high = correlation.correlate(noise)["entropy"]["spearman"]["interval_95"]
    assert low < 0 < high


def test_the_first_layer_says_nothing_and_one_prompt_gives_no_interval():
    layered = [replace(made(x, x), others=np.array([5 - x, x])) for x in np.linspace(0.1, 2, 20)]
    found = correlation.correlate(layered)
    assert found["entropy"]["spearman"] == {"value": 1, "interval_95": [None, None]}
    assert found["spearman_from_second_layer"] == [1]


def test_prompts_are_drawn_whole():
    # Ten copies of one prompt's points say no more than one copy does.
    few = [
        made(x, y, request=r) for r, (x, y) in enumerate(np.random.default_rng(1).random((8, 2)))
    ]
    many = [t for t in few for _ in range(10)]
    one, ten = (correlation.correlate(x)["entropy"]["pearson"] for x in (few, many))
    assert one["interval_95"] == pytest.approx(ten["interval_95"], abs=1e-3)


def test_drift_by_age():
    found = correlation.by_age([made(0.1, 0.15), made(0.2, 0.25)] * 5)
    assert found["ages"] == [1, 2]
    assert found["mean_drift"] == pytest.approx([0.5, 0.2])
    assert found["prompt_drift"] == pytest.approx([0.1, 0.1])
    assert found["positions"] == [10, 10]
    assert found["volatile_for"] == 1
    late = replace(made(0.1, 0.15), ages=np.full(10, 40), aged=np.ones(10))
    assert correlation.by_age([made(0.1, 0.15), made(0.2, 0.25), late] * 5)["volatile_for"] == 1
    few = correlation.by_age([made(0.1, 0.15)] * 3)
    assert few["ages"] == [] and few["volatile_for"] == 0
    promptless = [replace(t, prompt=float("nan")) for t in [made(0.1, 0.15)] * 10]
    assert correlation.by_age(promptless)["prompt_drift"] == [None, None]
