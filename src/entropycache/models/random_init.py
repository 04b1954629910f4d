"""Networks with random weights, to start training from and to measure cost on."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from entropycache.models.config import ModelConfig
from entropycache.models.transformer import LayerWeights, Transformer


def random_network(
    config: ModelConfig, seed: int = 0, dtype: torch.dtype = torch.float32
) -> Transformer:
    """A network with random weights on the CPU; the same seed gives the same weights.

    Weights are normal with deviation 0.02. Those of output projections are smaller by the square
    root of twice the number of layers, so that the sum over layers keeps its size.
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(*size: int, scale: float = 0.02) -> Tensor:
        return (torch.randn(*size, generator=generator) * scale).to(dtype)

    def ones(size: int) -> Tensor:
        return torch.ones(size, dtype=dtype)

    w, small = config.hidden_size, 0.02 / math.sqrt(2 * config.num_hidden_layers)
    heads, kv = config.query_size, config.key_size
    bias = [torch.zeros(heads + 2 * kv, dtype=dtype)] if config.attention_bias else []
    layers = [
        LayerWeights(
            attn_norm=ones(w),
            qkv=[normal(heads + 2 * kv, w)],
            qkv_bias=bias,
            out=normal(w, heads, scale=small),
            mlp_norm=ones(w),
            gate_up=[normal(2 * config.intermediate_size, w)],
            down=normal(w, config.intermediate_size, scale=small),
        )
        for _ in range(config.num_hidden_layers)
    ]
    embedding = normal(config.vocab_size, w)
    return Transformer(config, embedding, layers, ones(w), normal(config.vocab_size, w))
