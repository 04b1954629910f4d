"""The output of decoding: completions, and the frames of a canvas for those who watch it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from entropycache.core.sequence import Sequence
from entropycache.core.steps import Step


@dataclass
class Completion:
    """The answer to one prompt, and its cost.

    ``token_ids`` is the whole generated region; if decoding stopped early, the rest is filled with
    the end token. ``finish_reason`` is ``stop``, ``length`` or ``error``. ``forwards`` counts the
    passes, ``full_passes`` those that computed every position. ``rows_computed`` sums the positions
    computed over all passes, each as the mean over layers. ``commits`` lists the positions that
    each step committed, counted from the start of the generated region. ``answer_tokens`` counts
    the tokens before the first end token, and ``tokens_per_second`` divides them by ``seconds`` of
    wall time. ``error`` is the reason why a request of a batch was aborted; ``text`` is then the
    part that was complete before.
    """

    token_ids: list[int] = field(default_factory=list)
    text: str = ""
    finish_reason: str = "length"
    forwards: int = 0
    full_passes: int = 0
    rows_computed: float = 0
    commits: list[list[int]] = field(default_factory=list)
    seconds: float = 0.0
    tokens_per_second: float = 0.0
    answer_tokens: int = 0
    prompt_tokens: int = 0
    error: str | None = None


@dataclass(frozen=True)
class Frame:
    """One step, a copy of the canvas after it ``(length,)``, and the ``start`` of the generated
    region, as ``on_step`` and ``stream`` give them out.
    """

    step: Step
    canvas: NDArray[np.int64]
    start: int

    @classmethod
    def of(cls, step: Step, sequence: Sequence) -> Frame:
        """The frame of the step that was just made; call it before the next pass."""
        # Read now, and cached by the step: the next pass frees the logits they are computed from.
        _ = step.entropies
        return cls(step, sequence.canvas.copy(), sequence.start)
