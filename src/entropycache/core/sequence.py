"""The canvas of one request: its masked positions, and the order in which the others were filled.

It knows neither networks nor policies nor strategies.
"""

from __future__ import annotations

import numpy as np

from entropycache.core.steps import Commit, Positions


class Sequence:
    """Token ids ``(length,)``, of which those equal to ``mask_id`` are to be filled.

    ``start`` is the first position of the generated region. ``given`` counts the positions that
    were not masked at first, ``steps`` the steps so far. ``done`` is set once no mask is left, or
    by the loop where an answer ends early. Only ``apply`` changes the canvas, and it writes masked
    positions only.
    """

    def __init__(self, canvas: Positions, mask_id: int, start: int) -> None:
        self.canvas = canvas.astype(np.int64, copy=True)
        self.mask_id = mask_id
        self.start = start
        self.steps = 0
        self.done = False
        # Kept beside the canvas: policies, strategies and the loop ask for it several times a step.
        self._masked = self.canvas == mask_id
        self.given = len(canvas) - int(np.count_nonzero(self._masked))
        self._commits: list[Positions] = []

    def __len__(self) -> int:
        return len(self.canvas)

    def masked(self) -> Positions:
        """Positions that are still masked, ascending, ``(n,)``."""
        return np.flatnonzero(self._masked)

    def first_masked(self) -> int:
        """The leftmost masked position, or the canvas's length where none is left."""
        leftmost = int(self._masked.argmax())
        return leftmost if self._masked[leftmost] else len(self)

    def recent(self, k: int) -> Positions:
        """The ``k`` most recently committed positions, ``(n,)``; fewer where there are fewer.

        The newest step comes first. Positions of one step ascend, and where ``k`` cuts a step in
        two, its first positions are taken.
        """
        newest: list[Positions] = []
        for commit in reversed(self._commits):
            if k <= 0:
                break
            newest.append(commit[:k])
            k -= len(commit)
        return np.concatenate(newest) if newest else np.empty(0, np.int64)

    def apply(self, commit: Commit) -> None:
        """Write a commit's tokens into the canvas and count the step.

        An empty commit counts as a step too.
        """
        assert self._masked[commit.positions].all(), "only masked positions can be committed"
        self.canvas[commit.positions] = commit.tokens
        self._masked[commit.positions] = False
        self.steps += 1
        if len(commit.positions):
            self._commits.append(commit.positions)
        self.done = not self._masked.any()
