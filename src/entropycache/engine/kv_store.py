"""What passes leave behind, by (layer, slot, position). Dumb storage: it knows neither when it is
stale nor who asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor


class KVStore:
    """Slots of their own length each, with keys and values ``(layers, 2, kv_heads, length,
    head_dim)``. Keys are kept after the rotary embedding: positions never move.

    A slot may keep more, each ``(layers, length, *size)``: ``extras`` are the sizes by name.
    """

    def __init__(
        self,
        heads: tuple[int, int, int],
        extras: Mapping[str, tuple[int, ...]],
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self._layers, self._kv_heads, self._head_dim = heads
        self._extras = extras
        self._dtype, self.device = dtype, device
        self._slots: dict[int, Tensor] = {}
        self._kept: dict[int, dict[str, Tensor]] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._slots)

    def open(self, length: int, keeps: Iterable[str] = ()) -> int:
        """Reserve a slot for ``length`` positions; its content is undefined until written."""
        slot, self._next = self._next, self._next + 1
        self._slots[slot] = self._empty(self._layers, 2, self._kv_heads, length, self._head_dim)
        self._kept[slot] = {n: self._empty(self._layers, length, *self._extras[n]) for n in keeps}
        return slot

    def slot(self, slot: int) -> Tensor:
        """All keys and values of a slot, ``(layers, 2, kv_heads, length, head_dim)``: keys at
        index 0, values at 1.
        """
        return self._slots[slot]

    def kept(self, name: str, layer: int, slot: int) -> Tensor:
        """What else a slot keeps of a layer, ``(length, …)``, to be read and written in place."""
        return self._kept[slot][name][layer]

    def close(self, slot: int) -> None:
        """Release a slot."""
        del self._slots[slot], self._kept[slot]

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

    def _empty(self, *size: int) -> Tensor:
        return torch.empty(size, dtype=self._dtype, device=self.device)
