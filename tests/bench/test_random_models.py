"""Random models: published shapes have their published sizes."""

from __future__ import annotations

import pytest

from entropycache.bench.random_models import HALF_BILLION, SHAPES, random_engine
from entropycache.errors import OptionError


def test_published_shapes_have_their_published_sizes():
    def count(shape):
        heads, kv = (
            shape.num_attention_heads * shape.head_dim,
            shape.num_key_value_heads * shape.head_dim,
        )
        layer = (
            shape.hidden_size * (2 * heads + 2 * kv)
            + 3 * shape.hidden_size * shape.intermediate_size
        )
        return (shape.num_hidden_layers * layer + 2 * shape.hidden_size * shape.vocab_size) / 1e9

    assert count(SHAPES["llada-8b"][0]) == pytest.approx(8.02, abs=0.01)
    assert count(SHAPES["dream-7b"][0]) == pytest.approx(7.62, abs=0.01)
    assert count(HALF_BILLION) == pytest.approx(0.50, abs=0.01)
    with pytest.raises(OptionError, match="unknown shape 'gpt'; known: llada-8b"):
        random_engine("gpt")
