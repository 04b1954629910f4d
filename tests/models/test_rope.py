"""Frequencies equal those of transformers' own rotary functions; nothing that changes them is
ignored.
"""

from __future__ import annotations

import pytest
import torch
from transformers import Qwen2Config
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from entropycache.errors import CheckpointError
from entropycache.models.rope import inverse_frequencies, read_rope

SCALINGS = (
    {"rope_type": "linear", "factor": 4.0},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048},
    {"rope_type": "yarn", "factor": 1.0, "original_max_position_embeddings": 8192},
    {
        "rope_type": "yarn",
        "factor": 8.0,
        "original_max_position_embeddings": 512,
        "beta_fast": 16.0,
        "beta_slow": 2.0,
        "truncate": False,
    },
    {
        "rope_type": "yarn",
        "factor": 16.0,
        "original_max_position_embeddings": 4096,
        "mscale": 1.2,
        "mscale_all_dim": 0.7,
    },
    {
        "rope_type": "yarn",
        "factor": 2.0,
        "original_max_position_embeddings": 64,
        "attention_factor": 0.9,
    },
    {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 256,
    },
)


def config(scaling, theta=10_000.0, head_dim=64):
    return Qwen2Config(
        hidden_size=4 * head_dim,
        num_attention_heads=4,
        max_position_embeddings=8192,
        rope_parameters={**scaling, "rope_theta": theta},
    )


@pytest.mark.parametrize("theta", [500.0, 10_000.0, 1_000_000.0])
@pytest.mark.parametrize("head_dim", [16, 64, 128])
@pytest.mark.parametrize("scaling", SCALINGS, ids=lambda s: "-".join(map(str, s.values())))
def test_frequencies_are_those_of_transformers(scaling, head_dim, theta):
    theirs = config(scaling, theta, head_dim)
    expected, factor = ROPE_INIT_FUNCTIONS[scaling["rope_type"]](theirs)
    rope = read_rope(
        {"rope_theta": theta, "rope_scaling": scaling, "max_position_embeddings": 8192}
    )
    found = inverse_frequencies(head_dim, rope.theta, rope.scaling, torch.empty(0))
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-9)
    assert rope.scaling.table_scale == pytest.approx(factor, rel=1e-9)


@pytest.mark.parametrize("plain", [None, {}, {"rope_type": "default"}, {"type": "default"}])
@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
def test_no_scaling_is_none(key, plain):
    assert read_rope({key: plain, "rope_theta": 77.0}) == read_rope({"rope_theta": 77.0})


def test_either_name_holds_theta_and_scaling():
    new = {"rope_parameters": {"rope_theta": 5e5, "rope_type": "linear", "factor": 2.0}}
    old = {"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2}}
    assert read_rope(new) == read_rope(old)
    assert read_rope({}).theta is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, "type 'dynamic' is not"),
        ({"rope_scaling": {"type": "longrope"}}, "type 'longrope' is not supported; supported: d"),
        ({"rope_scaling": {"rope_type": ["yarn"]}}, "is not supported"),
        ({"rope_scaling": "yarn"}, "must be an object or null, not 'yarn'"),
        ({"rope_scaling": {"type": "linear"}}, "of type 'linear' lacks factor"),
        ({"rope_scaling": {"type": "llama3", "factor": 2}}, "lacks original_max_position"),
        ({"rope_scaling": {"type": "linear", "factor": "4"}}, "factor must be a number, not '4'"),
        ({"rope_scaling": {"type": "linear", "factor": 0}}, "factor must be a number above 0"),
        ({"rope_scaling": {"type": "linear", "factor": float("nan")}}, "factor must be a number"),
        ({"rope_scaling": {"type": "linear", "factor": 2, "surprise": 1}}, "has 'surprise'"),
        ({"rope_scaling": {"type": "yarn", "factor": 2, "truncate": 1}}, "truncate of rope_scal"),
        ({"rope_theta": 0}, "rope_theta must be a number above 0, and finite, not 0"),
        ({"rope_theta": -1.0}, "rope_theta must be a number above 0"),
        ({"rope_theta": True}, "rope_theta must be a number, not True"),
        (
            {"rope_theta": 1e4, "rope_parameters": {"rope_theta": 1e6}},
            "contradict each other: rope_theta=10000.0",
        ),
        (
            {
                "rope_scaling": {"type": "linear", "factor": 2.0},
                "rope_parameters": {"rope_type": "linear", "factor": 4.0},
            },
            "contradict each other",
        ),
    ],
)
def test_scaling_that_would_decode_wrong_text_is_refused(given, said):
    with pytest.raises(CheckpointError, match=said):
        read_rope({"max_position_embeddings": 512} | given)
