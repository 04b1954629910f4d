"""Attention of some rows over all keys of their sequence, with its weights where these are wanted.

The module knows tensors of one sequence and one layer, not which rows a pass computes.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def attention(q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Bidirectional attention of each row, ``(rows, heads, head_dim)``.

    ``q`` is ``(rows, heads, head_dim)``; ``keys`` and ``values`` are ``(kv_heads, length,
    head_dim)``. Every row sees every key.
    """
    # Without a mask, query heads that share a key head are as good as more rows: keys and values
    # need not be repeated for grouped-query attention.
    grouped = _grouped(q, len(keys))
    mixed = F.scaled_dot_product_attention(grouped[None], keys[None], values[None])[0]
    return _ungrouped(mixed, q)


def attention_weights(q: Tensor, keys: Tensor) -> Tensor:
    """The weights ``(heads, rows, length)`` that ``attention`` mixes values with, float32 or wider.

    ``q`` is ``(rows, heads, head_dim)`` and ``keys`` are ``(kv_heads, length, head_dim)``.
    """
    rows, heads, dim = q.shape
    scores = _grouped(q, len(keys)) @ keys.transpose(1, 2) / dim**0.5
    precise = torch.promote_types(q.dtype, torch.float32)
    weights: Tensor = scores.view(heads, rows, keys.shape[1]).softmax(dim=-1, dtype=precise)
    # Peaked heads give many denormal weights, and processors take up to fifteen times as long for
    # products of those: they become zero.
    return F.threshold(weights, torch.finfo(precise).tiny, 0.0, inplace=True)


def mix(weights: Tensor, values: Tensor) -> Tensor:
    """The values mixed by attention weights, ``(rows, heads, head_dim)``.

    ``weights`` are ``(heads, rows, length)`` and ``values`` ``(kv_heads, length, head_dim)``.
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
