"""Random models of published shapes.

The cost of a pass depends on the shape alone, so it can be measured without the weights.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from entropycache.engine.engine import Engine
from entropycache.errors import OptionError
from entropycache.io.tokenizer import Tokenizer
from entropycache.models.config import ModelConfig
from entropycache.models.devices import pick_device
from entropycache.models.dream import DREAM
from entropycache.models.family import Family
from entropycache.models.llada import LLADA
from entropycache.models.random_init import random_network

LLADA_8B = ModelConfig(
    hidden_size=4096,
    num_hidden_layers=32,
    num_attention_heads=32,
    num_key_value_heads=32,
    head_dim=128,
    intermediate_size=12288,
    vocab_size=126_464,
    rms_norm_eps=1e-5,
    rope_theta=500_000.0,
    max_position_embeddings=16_384,
)
DREAM_7B = ModelConfig(
    hidden_size=3584,
    num_hidden_layers=28,
    num_attention_heads=28,
    num_key_value_heads=4,
    head_dim=128,
    intermediate_size=18_944,
    vocab_size=152_064,
    rms_norm_eps=1e-6,
    rope_theta=1_000_000.0,
    max_position_embeddings=16_384,
    attention_bias=True,
    rope_in_float32=False,
)
HALF_BILLION = replace(
    LLADA_8B,
    hidden_size=1024,
    num_hidden_layers=19,
    num_attention_heads=16,
    num_key_value_heads=16,
    head_dim=64,
    intermediate_size=2816,
)
"""0.50 B parameters with LLaDA's vocabulary."""

SHAPES: dict[str, tuple[ModelConfig, Family]] = {
    "llada-8b": (LLADA_8B, LLADA),
    "dream-7b": (DREAM_7B, DREAM),
    "llada-0.5b": (HALF_BILLION, LLADA),
}


def random_engine(
    name: str, layers: int | None = None, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> Engine:
    """An engine with random weights of a shape named in ``SHAPES``, cut to ``layers`` if given.

    Raises ``OptionError`` for an unknown shape or device.
    """
    if name not in SHAPES:
        raise OptionError(f"unknown shape {name!r}; known: {', '.join(SHAPES)}")
    shape, family = SHAPES[name]
    if layers is not None:
        shape = replace(shape, num_hidden_layers=layers)
    return engine_of(shape, family, dtype, device)


def engine_of(
    shape: ModelConfig, family: Family, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> Engine:
    """An engine with random weights of any shape; the last two token ids are end and mask.

    Raises ``OptionError`` for an unknown device.
    """
    network = random_network(shape, dtype=dtype).to(pick_device(device))
    network.requires_grad_(False)
    text = Tokenizer(
        None, shape.vocab_size - 1, frozenset({shape.vocab_size - 2}), shape.vocab_size
    )
    return Engine(network, family, text)
