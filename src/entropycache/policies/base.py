"""The base class of cache policies. It knows canvases and steps; a policy holds its own numbers and
never tensors of the K/V store.
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
    """The words of ``entropycache policies`` for a policy: its paper, what it recomputes, and what
    ``decision`` costs a step.
    """

    paper: str
    recomputes: str
    decision: str


@dataclass(frozen=True)
class FeatureRefresh:
    """The parts of a canvas whose features a pass computes anew (dLLM-Cache): the ``prompt``, the
    ``response``, and otherwise the share ``rou`` of the response that drifted most.
    """

    prompt: bool
    response: bool
    rou: float


def own_rows(positions: Positions) -> Positions:
    """The prediction rows of a model whose rows predict their own positions."""
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
        """The positions that the next pass predicts and rewrites."""
        raise NotImplementedError(f"{type(self).__name__} defines no plan")

    def observe(self, sequence: Sequence, step: Step) -> None:
        """Take note of a step after its commit was applied."""

    def tracked(self, layer: int) -> Positions:
        """Positions whose attention before this pass ``layer`` is to see again; they must be among
        the pass's rows. Needs ``queries`` among ``keeps``.
        """
        return NOTHING

    def layer(self, layer: int, rows: Positions, weights: Tensor, before: Tensor | None) -> bool:
        """Look at one layer's attention; ``True`` asks for all positions from the next layer on,
        which needs ``inputs`` among ``keeps``.

        ``weights`` ``(heads, rows, length)`` are the attention weights of the rows; ``before``
        ``(heads, tracked, length)`` those of the tracked positions as the stored queries and keys
        give them, ``None`` where nothing is tracked.
        """
        return False

    def feature_refresh(self) -> FeatureRefresh | None:
        """The features that the next pass computes anew, asked for after ``plan``; ``None`` for a
        policy that caches keys and values alone, as all but dLLM-Cache do.
        """
        return None


def everything(sequence: Sequence) -> Positions:
    """Every position of the canvas."""
    return np.arange(len(sequence), dtype=np.int64)


def check_variant(policy: str, variant: str) -> None:
    """Refuse a variant other than the two that a paper and its released code make."""
    if variant not in ("released", "paper"):
        raise OptionError(f"{policy}: variant must be released or paper, not {variant!r}")
