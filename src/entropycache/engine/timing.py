"""Recorders of the time of decoding, which the engine gives to the loop, the runner and the batch.

The recorder in use is ``Runner.recorder``. The default one records nothing and costs next to
nothing; ``Engine.recording`` puts another in its place.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

PARTS = ("network", "decision", "sampling", "engine")
"""The parts that time is counted by. ``network``: the forward pass with its output head.
``decision``: the policy's ``plan``, ``observe`` and hooks of a pass, the choice of rows, and the
time that attention weights take beyond fused attention. ``sampling``: from logits to committed
tokens. ``engine``: all the rest.
"""
MEASURING = "measuring"
"""Time that only the measurement itself takes; it belongs to no part."""


class NullRecorder:
    """Records nothing; the recorder of an engine that nobody measures."""

    def part(self, name: str) -> AbstractContextManager[None]:
        """A context whose time counts for the part ``name``, one of ``PARTS``."""
        return _NOTHING

    def excess(self, name: str, usual: Callable[[], Any]) -> AbstractContextManager[None]:
        """A context whose time beyond that of ``usual`` counts for the part ``name``.

        The rest counts for the part around it.
        """
        return _NOTHING


_NOTHING: AbstractContextManager[None] = nullcontext()


class Recorder(NullRecorder):
    """Counts ``seconds`` by part. Time in a part within another is counted for the inner one alone.

    On a GPU it waits for the device wherever one part ends and another starts.
    """

    def __init__(self, device: torch.device) -> None:
        self.seconds = dict.fromkeys((*PARTS, MEASURING), 0.0)
        # A GPU runs behind the host: without a wait, the time of a kernel would count for the part
        # that happens to read its result.
        self.synchronizes = device.type == "cuda"
        self._device = device
        self._open: list[str] = []
        self._since = 0.0

    @property
    def total(self) -> float:
        """Seconds of all parts, without those that the measurement itself took."""
        return sum(self.seconds[name] for name in PARTS)

    def reset(self) -> None:
        """Set all seconds to zero."""
        self.seconds = dict.fromkeys(self.seconds, 0.0)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the time inside for the part ``name``."""
        self._turn()
        self._open.append(name)
        try:
            yield
        finally:
            self._turn()
            self._open.pop()

    @contextmanager
    def excess(self, name: str, usual: Callable[[], Any]) -> Iterator[None]:
        """Count the time inside for the part ``name``, less that of one call of ``usual``.

        ``usual`` is called once after the context, to be timed; its own time counts for no part.
        """
        before = self.seconds[name], self.seconds[MEASURING]
        with self.part(name):
            yield
        with self.part(MEASURING):
            usual()
        spent, needed = self.seconds[name] - before[0], self.seconds[MEASURING] - before[1]
        shifted = min(spent, needed)  # ``usual`` may take longer, and no part may count below zero
        self.seconds[name] -= shifted
        if self._open:
            self.seconds[self._open[-1]] += shifted

    def _turn(self) -> None:
        """Add the time since the last turn to the innermost open part."""
        if self.synchronizes:
            torch.cuda.synchronize(self._device)
        now = time.perf_counter()
        if self._open:
            self.seconds[self._open[-1]] += now - self._since
        self._since = now
