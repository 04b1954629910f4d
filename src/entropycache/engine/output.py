"""The output of decoding: completions, and frames of a canvas that is watched."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from entropycache.core.sequence import Sequence
from entropycache.core.steps import Step


@dataclass
class Completion:
    """The answer to one prompt, and its cost.

    ``token_ids`` is the whole generated region; where decoding stopped early the rest is filled
    with the end token. ``commits`` lists, for each step, the positions committed, counted from the
    start of the generated region. ``rows_computed`` sums the positions computed over all passes,
    each as the mean over layers. ``tokens_per_second`` counts the answer's tokens, before the first
    end token, over ``seconds`` of wall time. ``error`` says why a request of a batch was aborted;
    its text is then the part that was complete before.
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
    """One step as it is watched: the step, a copy of the canvas after it ``(length,)``, and the
    ``start`` of the generated region.
    """

    step: Step
    canvas: NDArray[np.int64]
    start: int

    @classmethod
    def of(cls, step: Step, sequence: Sequence) -> Frame:
        """The frame of a step that was just made."""
        _ = step.entropies  # computed now: the next pass takes away what they are computed from
        return cls(step, sequence.canvas.copy(), sequence.start)
