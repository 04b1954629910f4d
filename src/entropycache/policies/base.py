"""What a cache policy is. It knows canvases and steps; it holds its own numbers and never tensors
of the store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from torch import Tensor

from entropycache.core.sequence import Sequence
from entropycache.core.steps import Plan, Positions, Step, Window
from entropycache.errors import OptionError


class Policy(Protocol):
    """Decides what each pass of one request recomputes.

    Call order: ``plan`` before every pass, ``observe`` after the commit was applied. Neither
    changes the sequence. The first plan must refresh every position: the store holds nothing yet.
    """

    def plan(self, sequence: Sequence, window: Window) -> Plan:
        """What the next pass predicts and rewrites."""
        ...

    def observe(self, sequence: Sequence, step: Step) -> None:
        """Take note of what the step did."""
        ...


@dataclass(frozen=True)
class About:
    """What ``entropycache policies`` says of a policy, as its class attribute ``about``."""

    paper: str
    recomputes: str
    decision: str
    """The cost of deciding, a step."""


Sources = Callable[[Positions], Positions]
"""Maps positions to the rows that predict them, a model family's ``sources``."""


@runtime_checkable
class UsesSources(Protocol):
    """A policy that chooses rows rather than positions: it is given the model's ``sources``."""

    sources: Sources


@runtime_checkable
class NeedsOrder(Protocol):
    """A policy that must know what is committed next: it needs ``Window.upcoming``."""

    needs_order: ClassVar[bool]


@runtime_checkable
class PrefersWindow(Protocol):
    """A policy published with a sliding window of its own, used where no window is asked for."""

    def preferred_window(self) -> int:
        """The width of the window."""
        ...


@runtime_checkable
class Probe(Protocol):
    """A policy that watches the pass: attention weights are computed for its sequences alone.

    In each layer ``tracked`` is asked first, then ``layer`` is told what its rows attended to.
    ``keeps`` names what the store keeps beside keys and values: nothing, or ``queries`` and
    ``inputs`` (of layers), without which rows cannot be tracked nor a pass be widened.
    """

    keeps: ClassVar[frozenset[str]]

    def tracked(self, layer: int) -> Positions:
        """Positions whose attention before this pass ``layer`` is to see again; they must be among
        the rows.
        """
        ...

    def layer(self, layer: int, rows: Positions, weights: Tensor, before: Tensor | None) -> bool:
        """Whether all positions are to be computed from the next layer on.

        ``weights`` ``(heads, rows, length)`` are the attention weights of the rows; ``before``
        ``(heads, tracked, length)`` those of the tracked positions as the stored queries and keys
        give them, ``None`` where nothing is tracked.
        """
        ...


@runtime_checkable
class KeepsFeatures(Protocol):
    """A policy that caches what attention and feed-forward layers put out (dLLM-Cache): its
    sequences have a runner of their own. ``plan`` sets what the next pass computes anew, and the
    share ``rou`` of the rest of the response that is chosen in every layer.
    """

    keeps: ClassVar[frozenset[str]]
    refresh_prompt: bool
    refresh_response: bool
    rou: float


def everything(sequence: Sequence) -> Positions:
    """Every position of the canvas."""
    return np.arange(len(sequence), dtype=np.int64)


NOTHING: Positions = np.empty(0, np.int64)


def check_variant(policy: str, variant: str) -> None:
    """Refuse a variant other than the two that a paper and its released code make."""
    if variant not in ("released", "paper"):
        raise OptionError(f"{policy}: variant must be released or paper, not {variant!r}")


def own_rows(positions: Positions) -> Positions:
    """The ``sources`` of a model whose rows predict their own positions."""
    return positions
