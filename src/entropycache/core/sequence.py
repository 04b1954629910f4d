"""The canvas of one request: which positions are masked, and when each was committed."""

from __future__ import annotations

import numpy as np

from entropycache.core.steps import Commit, Positions


class Sequence:
    """Token ids ``canvas`` ``(length,)`` of which those equal to ``mask_id`` are to be filled.

    ``start`` is the first position of the generated region, ``given`` the number of positions that
    were not masked at first. Only ``apply`` changes a canvas, and it writes masked positions only.
    """

    def __init__(self, canvas: Positions, mask_id: int, start: int) -> None:
        self.canvas = canvas.astype(np.int64, copy=True)
        self.mask_id = mask_id
        self.start = start
        self.steps = 0
        self.done = False
        self._masked = self.canvas == mask_id
        self.given = len(canvas) - int(np.count_nonzero(self._masked))
        self._commits: list[Positions] = []

    def __len__(self) -> int:
        return len(self.canvas)

    def masked(self) -> Positions:
        """Positions still masked, ascending."""
        return np.flatnonzero(self._masked)

    def first_masked(self) -> int:
        """The leftmost masked position, or the length where none is left."""
        found = int(self._masked.argmax())
        return found if self._masked[found] else len(self)

    def recent(self, k: int) -> Positions:
        """The ``k`` most recently committed positions, newest first; those of one step by
        position.
        """
        found: list[Positions] = []
        for commit in reversed(self._commits):
            if k <= 0:
                break
            found.append(commit[:k])
            k -= len(commit)
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def apply(self, commit: Commit) -> None:
        """Write a commit's tokens and count the step."""
        assert self._masked[commit.positions].all(), "only masked positions can be committed"
        self.canvas[commit.positions] = commit.tokens
        self._masked[commit.positions] = False
        self.steps += 1
        if len(commit.positions):
            self._commits.append(commit.positions)
        self.done = not self._masked.any()
