"""Settings: what is accepted, what is refused and with which sentence."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from entropycache import Confidence, GenerationConfig
from entropycache.config.options import Bounds
from entropycache.errors import OptionError


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"gen_length": 0}, "gen_length must be 1 or more, not 0"),
        ({"gen_length": 1.5}, "gen_length must be a whole number, not 1.5"),
        ({"gen_length": True}, "gen_length must be a whole number, not True"),
        ({"threshold": 0}, "threshold must be a probability above 0 and at most 1, not 0"),
        ({"threshold": "high"}, "threshold must be a number, not 'high'"),
        ({"factor": -1}, "factor must be above 0"),
        ({"temperature": -0.1}, "temperature must be 0 or more"),
        ({"temperature": float("inf")}, "finite"),
        ({"temperature": float("nan")}, "finite"),
        ({"top_p": 0}, "top_p must be above 0"),
        ({"top_k": -1}, "top_k must be 0"),
        ({"seed": -1}, "seed must be from 0"),
        ({"block_length": 8, "window": 8}, "block_length=8 and window=8 exclude each other"),
        ({"threshold": 0.9, "steps": 8}, "steps=8 and threshold=0.9 exclude each other"),
        ({"steps": 10, "block_length": 64}, "steps=10 cannot be spread over 4 blocks"),
        ({"confidence": "sure"}, "confidence must be one of probability, margin, entropy"),
        ({"confidence": "entropy"}, "no threshold, factor or sigma"),
        ({"confidence": "entropy", "factor": 1.0}, "no threshold, factor or sigma"),
        ({"stop": ["a", ""]}, "empty string"),
        ({"stop": 3}, "stop must be a string or a list of strings"),
        ({"early_stop": "yes"}, "early_stop must be true or false"),
        ({"policy": None}, "policy must be text"),
    ],
)
def test_a_wrong_setting_says_what_is_accepted(options, said):
    with pytest.raises(OptionError, match=said):
        GenerationConfig().merge(**options)


INF, NAN = float("inf"), float("nan")
COUNT = "1 or more"
DREAM = {"alg": "entropy", "steps": 4}


@pytest.mark.parametrize(
    ("name", "accepted", "inside", "outside"),
    [
        ("gen_length", COUNT, [1, 10**9], [0, -1]),
        ("block_length", COUNT, [1, 10**9], [0, -1]),
        ("window", COUNT, [1, 10**9], [0, -1]),
        ("tokens_per_step", COUNT, [1, 10**9], [0, -1]),
        ("steps", COUNT, [1, 10**9], [0, -1]),
        ("max_new_tokens", COUNT, [1, 10**9], [0, -1]),
        ("threshold", "a probability above 0 and at most 1", [1e-9, 1.0], [0.0, 1.001, NAN]),
        ("factor", "above 0", [1e-9, INF], [0.0, NAN]),
        ("eb_gamma", "0 or more nats", [0.0, INF], [-1e-9, NAN]),
        ("sigma", "above 0, and finite", [1e-9, 1e9], [0.0, INF, NAN]),
        ("alg_temp", "0 or more, and finite", [0.0, 1e9], [-1e-9, INF, NAN]),
        ("temperature", "0 or more, and finite", [0.0, 1e9], [-1e-9, INF, NAN]),
        ("top_p", "above 0 and at most 1", [1e-9, 1.0], [0.0, 1.001, NAN]),
        ("top_k", "0 (no limit) or more", [0, 10**9], [-1]),
        ("seed", "from 0 to 2**63 - 1", [0, 2**63 - 1], [-1, 2**63]),
    ],
)
def test_every_number_has_its_bounds_and_its_sentence(name, accepted, inside, outside):
    others = DREAM if name == "alg_temp" else {}
    for value in inside:
        assert getattr(GenerationConfig(**others, **{name: value}), name) == value
    for value in outside:
        with pytest.raises(OptionError) as refused:
            GenerationConfig(**others, **{name: value})
        assert str(refused.value) == f"{name} must be {accepted}, not {value}"


@pytest.mark.parametrize(
    ("bounds", "accepted"),
    [
        (Bounds(ge=2, lt=9), "2 or more and below 9"),
        (Bounds(gt=0.5, le=1), "above 0.5 and at most 1"),
        (Bounds(le=3, finite=True), "at most 3, and finite"),
        (Bounds(finite=True), "finite"),
    ],
)
def test_bounds_without_words_of_their_own_are_told_in_numbers(bounds, accepted):
    assert bounds.accepted == accepted


def test_a_number_without_bounds_is_any_number():
    assert all(Bounds().hold(number) for number in (-1e300, 0, INF, NAN))


def test_a_field_without_bounds_may_stand_among_options():
    @dataclass(frozen=True)
    class Named(GenerationConfig):
        label: str = ""

    assert Named(label="mine", seed=3).label == "mine"
    with pytest.raises(OptionError, match="seed must be from 0"):
        Named(seed=-1)


def test_options_replace_their_alternatives():
    base = GenerationConfig(block_length=32, steps=64)
    found = base.merge(threshold=0.5, window=16)
    assert (found.threshold, found.steps) == (0.5, None)
    assert (found.window, found.block_length) == (16, None)
    assert base.merge(seed=3).steps == 64


def test_values_from_json_become_the_declared_types():
    found = GenerationConfig().merge(stop="x", confidence="margin", temperature=1, threshold=1)
    assert found.stop == ("x",)
    assert found.confidence is Confidence.MARGIN
    assert isinstance(found.temperature, float)


def test_entropy_confidence_goes_with_a_count():
    assert GenerationConfig(confidence="entropy", tokens_per_step=2).tokens_per_step == 2
    assert GenerationConfig(confidence="entropy", steps=8).steps == 8
