"""Attention of some rows over all keys of their sequence: fused where only its result is wanted,
with its weights where a policy watches.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def attention(q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Bidirectional attention of q ``(rows, heads, head_dim)`` over keys and values ``(kv_heads,
    length, head_dim)``.

    Without a mask, the query heads that share a key head are as good as more rows: nothing is
    repeated.
    """
    grouped = _grouped(q, len(keys))
    mixed = F.scaled_dot_product_attention(grouped[None], keys[None], values[None])[0]
    return _ungrouped(mixed, q)


def attention_weights(q: Tensor, keys: Tensor) -> Tensor:
    """The weights ``(heads, rows, length)`` that ``attention`` mixes values with, in float32 at
    least.

    Where a head is sure of itself, many weights are too small for a normal number, and a processor
    takes up to fifteen times as long for products of such: they become zero.
    """
    rows, heads, dim = q.shape
    scores = _grouped(q, len(keys)) @ keys.transpose(1, 2) / dim**0.5
    precise = torch.promote_types(q.dtype, torch.float32)
    weights: Tensor = scores.view(heads, rows, keys.shape[1]).softmax(dim=-1, dtype=precise)
    return F.threshold(weights, torch.finfo(precise).tiny, 0.0, inplace=True)


def mix(weights: Tensor, values: Tensor) -> Tensor:
    """Values ``(kv_heads, length, head_dim)`` mixed by weights ``(heads, rows, length)``: ``(rows,
    heads, head_dim)``.
    """
    heads, rows, length = weights.shape
    grouped = weights.to(values.dtype).view(len(values), heads // len(values) * rows, length)
    return (grouped @ values).view(heads, rows, values.shape[2]).transpose(0, 1)


def _grouped(q: Tensor, shared: int) -> Tensor:
    rows, heads, dim = q.shape
    grouped = q.view(rows, shared, heads // shared, dim).permute(1, 2, 0, 3)
    return grouped.reshape(shared, heads // shared * rows, dim)


def _ungrouped(mixed: Tensor, q: Tensor) -> Tensor:
    rows, heads, dim = q.shape
    shared = len(mixed)
    return (
        mixed.view(shared, heads // shared, rows, dim).permute(2, 0, 1, 3).reshape(rows, heads, dim)
    )
