"""A task's generation arguments: honoured or refused, and the run's own options win."""

from __future__ import annotations

import pytest

from entropycache import GenerationConfig
from entropycache.errors import OptionError
from entropycache.evaluation.arguments import request_config


@pytest.mark.parametrize(
    ("task", "options", "expected"),
    [
        ({"until": ["Q:"], "max_gen_toks": 99}, {}, {"stop": ("Q:",), "gen_length": 99}),
        ({"until": "Q:", "max_new_tokens": 9}, {}, {"stop": ("Q:",), "gen_length": 9}),
        (
            {"do_sample": False, "temperature": 0.7, "top_p": 0.9},
            {},
            {"temperature": 0, "top_p": 1},
        ),
        ({"do_sample": True}, {}, {"temperature": 1.0}),
        ({"temperature": 0.3, "top_k": 5}, {}, {"temperature": 0.3, "top_k": 5}),
        ({"temperature": 0.0}, {"temperature": 0.1}, {"temperature": 0.1}),
        ({"max_gen_toks": 99}, {"gen_length": 64}, {"gen_length": 64}),
        ({"until": ["Q:"]}, {"stop": ["#"]}, {"stop": ("#",)}),
        ({}, {"steps": 16, "gen_length": 32}, {"steps": 16, "gen_length": 32}),
    ],
)
def test_a_tasks_arguments_are_honoured_and_the_runs_options_win(task, options, expected):
    assert request_config(task, options) == GenerationConfig(**expected)


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ({"num_beams": 4}, "generation argument 'num_beams' is not supported; known: until, max"),
        ({"do_sample": "maybe"}, "do_sample must be true or false"),
        ({"until": [""]}, "stop must not hold an empty string"),
        ({"max_gen_toks": 0}, "gen_length must be 1 or more, not 0"),
    ],
)
def test_a_tasks_arguments_that_cannot_be_honoured_are_refused(task, said):
    with pytest.raises(OptionError, match=said):
        request_config(task, {})
