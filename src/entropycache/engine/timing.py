"""Where the time of decoding goes: recorders that the engine hands to the loop, the runner and the
batch.

The recorder in force is ``Runner.recorder``. By default it records nothing and costs nothing to
speak of; ``Engine.recording`` puts another in its place.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

PARTS = ("network", "decision", "sampling", "engine")
"""``decision``: ``plan`` and ``observe`` of the policy, the choice of rows, its looks into a pass,
and what attention weights take beyond fused attention. ``sampling``: from logits to committed
tokens. ``engine``: all the rest.
"""
MEASURING = "measuring"


class NullRecorder:
    """Records nothing: what an engine runs with unless somebody measures."""

    def part(self, name: str) -> AbstractContextManager[None]:
        """A context whose time counts as ``name``'s, one of ``PARTS``."""
        return _NOTHING

    def excess(self, name: str, usual: Callable[[], Any]) -> AbstractContextManager[None]:
        """A context whose time beyond that of ``usual`` counts as ``name``'s; the rest counts as
        that of the part around it.
        """
        return _NOTHING


_NOTHING: AbstractContextManager[None] = nullcontext()


class Recorder(NullRecorder):
    """Seconds by part, each counted once: time in a part within another is the inner one's.

    On a GPU the device is waited for wherever one part ends and another starts.
    """

    def __init__(self, device: torch.device) -> None:
        self.seconds = dict.fromkeys((*PARTS, MEASURING), 0.0)
        self.synchronizes = device.type == "cuda"
        self._device = device
        self._open: list[str] = []
        self._since = 0.0

    @property
    def total(self) -> float:
        """Seconds of all parts, without those that only the measurement took."""
        return sum(self.seconds[name] for name in PARTS)

    def reset(self) -> None:
        """Set all seconds to zero."""
        self.seconds = dict.fromkeys(self.seconds, 0.0)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the time inside as ``name``'s."""
        self._turn()
        self._open.append(name)
        try:
            yield
        finally:
            self._turn()
            self._open.pop()

    @contextmanager
    def excess(self, name: str, usual: Callable[[], Any]) -> Iterator[None]:
        """Count the time inside as ``name``'s, less the time of one call of ``usual``, which is
        made to be measured.
        """
        before = self.seconds[name], self.seconds[MEASURING]
        with self.part(name):
            yield
        with self.part(MEASURING):
            usual()
        spent, needed = self.seconds[name] - before[0], self.seconds[MEASURING] - before[1]
        shifted = min(spent, needed)
        self.seconds[name] -= shifted
        if self._open:
            self.seconds[self._open[-1]] += shifted

    def _turn(self) -> None:
        """Give the time since the last turn to the part that is open."""
        if self.synchronizes:
            torch.cuda.synchronize(self._device)
        now = time.perf_counter()
        if self._open:
            self.seconds[self._open[-1]] += now - self._since
        self._since = now
