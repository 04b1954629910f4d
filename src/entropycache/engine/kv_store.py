"""Keys and values that earlier passes computed, by slot, layer and position.

Plain storage: it does not know which entries are out of date, nor which policy reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor


class KVStore:
    """Keys and values of many sequences, one slot for each.

    A slot holds ``(layers, 2, kv_heads, length, head_dim)``: keys at index 0, after the rotary
    embedding, and values at index 1. It may keep further tensors, each ``(layers, length, *size)``;
    ``extras`` gives their ``size`` by name. ``heads`` is ``(layers, kv_heads, head_dim)``.
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
        # A tensor for each slot rather than one for all: sequences differ in length, so nothing is
        # padded, attention needs no key mask, and a closed slot gives its memory back at once.
        self._slots: dict[int, Tensor] = {}
        self._kept: dict[int, dict[str, Tensor]] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._slots)

    def open(self, length: int, keeps: Iterable[str] = ()) -> int:
        """Reserve a slot for ``length`` positions and return its number.

        ``keeps`` names the further tensors that it holds. The content is undefined until written.
        """
        # A number is never given out twice: a use after ``close`` fails instead of reading the keys
        # of another sequence.
        slot, self._next = self._next, self._next + 1
        self._slots[slot] = self._empty(self._layers, 2, self._kv_heads, length, self._head_dim)
        self._kept[slot] = {
            name: self._empty(self._layers, length, *self._extras[name]) for name in keeps
        }
        return slot

    def slot(self, slot: int) -> Tensor:
        """All keys and values of a slot, ``(layers, 2, kv_heads, length, head_dim)``.

        Keys are at index 0, values at index 1. The tensor is the store's own, not a copy.
        """
        return self._slots[slot]

    def kept(self, name: str, layer: int, slot: int) -> Tensor:
        """The further tensor ``name`` of one layer of a slot, ``(length, *size)``.

        It is the store's own: callers read it and write it in place.
        """
        return self._kept[slot][name][layer]

    def close(self, slot: int) -> None:
        """Release a slot and all that it keeps."""
        del self._slots[slot], self._kept[slot]

    def write(
        self, layer: int, slot: int, positions: Tensor, k: Tensor, v: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Rewrite ``positions`` ``(rows,)`` with k and v ``(rows, kv_heads, head_dim)``.

        Returns all keys and all values of the slot, each ``(kv_heads, length, head_dim)``.
        """
        # Keys arrive rotated and stay so: a canvas position never moves, so its rotation never
        # changes, and keys of earlier passes need no second one when they are read.
        keys, values = self._slots[slot][layer]
        keys.index_copy_(1, positions, k.transpose(0, 1))
        values.index_copy_(1, positions, v.transpose(0, 1))
        return keys, values

    def _empty(self, *size: int) -> Tensor:
        # Not set to zero: the first plan of every request refreshes all positions.
        return torch.empty(size, dtype=self._dtype, device=self.device)
