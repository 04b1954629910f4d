"""Attention rollout (Abnar and Zuidema 2020) over a pass in which only some rows were computed."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from entropycache.core.steps import Positions


class Rollout:
    """Collects the attention of each layer's rows, averaged over heads, during one pass."""

    def __init__(self) -> None:
        self._layers: list[tuple[Positions, Tensor]] = []

    def add(self, rows: Positions, weights: Tensor) -> None:
        """Add the next layer: the weights ``(heads, rows, length)`` of positions ``(rows,)``."""
        self._layers.append((rows, weights.mean(dim=0)))

    def take(self, length: int) -> NDArray[np.float64]:
        """Column sums ``(length,)`` of the product of all layers' (A + I), and forget the layers.

        Each row of (A + I) is scaled to sum to 1. A row that was not computed attends to itself.
        """
        # A row vector of ones is multiplied through from the last layer down, so that no
        # ``(length, length)`` matrix is formed.
        first = self._layers[0][1]
        sums = torch.ones(length, dtype=first.dtype, device=first.device)
        for rows, attended in reversed(self._layers):
            index = torch.from_numpy(rows).to(sums.device)
            mixed = attended.clone()
            mixed[torch.arange(len(rows), device=sums.device), index] += 1
            mixed /= mixed.sum(dim=1, keepdim=True)
            own = sums[index]
            sums = sums.index_fill(0, index, 0) + own @ mixed
        self._layers.clear()
        host: NDArray[np.float64] = sums.double().cpu().numpy()
        return host
