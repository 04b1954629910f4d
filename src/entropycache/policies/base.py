"""The base class of cache policies.

It knows canvases and steps. A policy holds its own numbers and never tensors of the K/V store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from entropycache.core.sequence import Sequence
from entropycache.core.steps import Plan, Positions, Step, Window
from entropycache.errors import OptionError

NOTHING: Positions = np.empty(0, np.int64)

PredictionRows = Callable[[Positions], Positions]
"""Maps positions to the rows whose logits predict them: ``prediction_rows`` of a model family."""


@dataclass(frozen=True)
class About:
    """The description of a policy that ``entropycache policies`` prints.

    ``paper`` is its source, ``recomputes`` names the positions it recomputes, and ``decision`` is
    the cost of deciding in each step.
    """

    paper: str
    recomputes: str
    decision: str


@dataclass(frozen=True)
class FeatureRefresh:
    """The parts of a canvas whose features a pass computes anew (dLLM-Cache, arXiv 2506.06295).

    ``prompt`` and ``response`` are true where the whole part is due. Where the response is not due,
    the share ``rou`` of its positions (0 to 1) is recomputed, those whose values drifted most.
    """

    prompt: bool
    response: bool
    rou: float


def own_rows(positions: Positions) -> Positions:
    """The prediction rows ``(n,)`` of a model whose rows predict their own positions: the same."""
    return positions


class Policy:
    """Decides which positions each pass of one request recomputes.

    A policy of your own is a dataclass that inherits from this class and defines ``plan``; its
    fields are its options. Call order: ``plan`` before every pass, the hooks of a pass in the order
    of the layers, ``observe`` after the commit was applied. No hook may change the sequence. The
    first plan must refresh every position, because the store holds nothing yet.
    """

    about: ClassVar[About] = About("", "", "")
    keeps: ClassVar[frozenset[str]] = frozenset()
    """Tensors that the store keeps beside keys and values, by name: ``queries`` (after the rotary
    embedding), ``inputs`` (of layers), ``attention`` and ``mlp`` (outputs).
    """
    watches: ClassVar[bool] = False
    """Attention weights are computed for this policy, and ``tracked`` and ``layer`` are called."""
    needs_order: ClassVar[bool] = False
    """The policy reads ``Window.upcoming``: it goes only with an order that is drawn in advance."""
    windows: ClassVar[Mapping[str, int]] = {}
    """Widths of the sliding window that the method was published with, by ``model_type``. They act
    where a request asks for no window.
    """
    prediction_rows: PredictionRows = staticmethod(own_rows)
    """Set by ``make_policy`` to those of the request's model."""

    def plan(self, sequence: Sequence, window: Window) -> Plan:
        """The positions that the next pass predicts and rewrites.

        The base class raises ``NotImplementedError``.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no plan")

    def observe(self, sequence: Sequence, step: Step) -> None:
        """Take note of a step after its commit was applied.

        ``step.entropies`` must be read here if at all: they are gone with the next pass.
        """

    def tracked(self, layer: int) -> Positions:
        """Positions ``(n,)``, ascending, whose attention of an earlier pass ``layer`` needs too.

        They must be among the rows of this pass, and ``keeps`` must contain ``queries``. The
        argument is the layer's index.
        """
        return NOTHING

    def layer(self, layer: int, rows: Positions, weights: Tensor, before: Tensor | None) -> bool:
        """Look at one layer's attention and return true to compute all positions from the next on.

        ``rows`` ``(rows,)`` are the positions of this pass at the layer, ascending, and ``weights``
        ``(heads, rows, length)`` their attention weights. ``before`` ``(heads, tracked, length)``
        are the weights of the tracked positions by the queries and keys stored before this pass, or
        ``None`` where nothing is tracked. Returning true needs ``inputs`` among ``keeps``.
        """
        return False

    def feature_refresh(self) -> FeatureRefresh | None:
        """The features that the next pass computes anew; asked for after ``plan``.

        ``None`` is for policies that cache keys and values alone, as all but dLLM-Cache do.
        """
        return None


def everything(sequence: Sequence) -> Positions:
    """Every position of the canvas, ``(length,)``."""
    return np.arange(len(sequence), dtype=np.int64)


def check_variant(policy: str, variant: str) -> None:
    """Raise ``OptionError`` for a variant other than ``released`` (the code) and ``paper``."""
    if variant not in ("released", "paper"):
        raise OptionError(f"{policy}: variant must be released or paper, not {variant!r}")
