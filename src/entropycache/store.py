"""Keys and values by (layer, slot, position). Dumb storage: it knows neither when they are stale
nor who asks.
"""

from __future__ import annotations

import torch
from torch import Tensor


class Store:
    """Slots of their own length each, ``(layers, 2, kv_heads, length, head_dim)``. Keys are kept
    after the rotary embedding: positions never move.
    """

    def __init__(
        self, layers: int, kv_heads: int, head_dim: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self._shape = (layers, 2, kv_heads)
        self._head_dim = head_dim
        self._dtype, self._device = dtype, device
        self._slots: dict[int, Tensor] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._slots)

    def open(self, length: int) -> int:
        """Reserve a slot for ``length`` positions; its content is undefined until written."""
        slot, self._next = self._next, self._next + 1
        self._slots[slot] = torch.empty(
            *self._shape, length, self._head_dim, dtype=self._dtype, device=self._device
        )
        return slot

    def slot(self, slot: int) -> Tensor:
        """All of a slot, ``(layers, 2, kv_heads, length, head_dim)``: keys at index 0, values at
        1.
        """
        return self._slots[slot]

    def close(self, slot: int) -> None:
        """Release a slot."""
        del self._slots[slot]

    def write(
        self, layer: int, slot: int, positions: Tensor, k: Tensor, v: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Rewrite ``positions`` ``(rows,)`` with k and v ``(rows, kv_heads, head_dim)``.

        Returns all keys and all values of the slot, each ``(kv_heads, length, head_dim)``.
        """
        keys, values = self._slots[slot][layer]
        keys.index_copy_(1, positions, k.transpose(0, 1))
        values.index_copy_(1, positions, v.transpose(0, 1))
        return keys, values
