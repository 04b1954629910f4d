"""Networks with random weights: where training begins, and what cost is measured on."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from entropycache.models.transformer import LayerWeights, Shape, Transformer


def random_network(shape: Shape, seed: int = 0, dtype: torch.dtype = torch.float32) -> Transformer:
    """A freshly initialised network: normal with deviation 0.02, output projections scaled down by
    depth.
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(*size: int, scale: float = 0.02) -> Tensor:
        return (torch.randn(*size, generator=generator) * scale).to(dtype)

    def ones(size: int) -> Tensor:
        return torch.ones(size, dtype=dtype)

    w, small = shape.width, 0.02 / math.sqrt(2 * shape.layers)
    heads, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    bias = [torch.zeros(heads + 2 * kv, dtype=dtype)] if shape.qkv_bias else []
    layers = [
        LayerWeights(
            attn_norm=ones(w),
            qkv=[normal(heads + 2 * kv, w)],
            qkv_bias=bias,
            out=normal(w, heads, scale=small),
            mlp_norm=ones(w),
            gate_up=[normal(2 * shape.mlp_width, w)],
            down=normal(w, shape.mlp_width, scale=small),
        )
        for _ in range(shape.layers)
    ]
    embedding = normal(shape.vocab_size, w)
    return Transformer(shape, embedding, layers, ones(w), normal(shape.vocab_size, w))
