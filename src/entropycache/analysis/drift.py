"""The drift of values from one full pass to the next while a canvas is filled in.

Observation 1 of EntropyCache (arXiv 2603.18489) is that the entropy of the token just committed
predicts the drift that follows. Observation 2 is that a position goes on changing for several steps
after its commit. Both are measured under decoding without a cache, where every pass is exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from entropycache.config.generation import GenerationConfig
from entropycache.core.sequence import Sequence as Canvas
from entropycache.core.steps import Step
from entropycache.engine.engine import Engine
from entropycache.engine.loop import decode
from entropycache.engine.request import Request
from entropycache.io.tokenizer import Prompt
from entropycache.policies.none import NoCache

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Transition:
    """The change of values from the pass that led to a commit to the pass after it.

    Drift is 1 - cosine of a position's value vectors in the two passes. ``entropy`` (nats) is the
    largest of the commit, ``confidence`` the smallest. ``others`` ``(layers,)`` is the mean drift
    of all positions that the commit did not write, ``committed`` ``(layers,)`` that of those it
    wrote. For every generated position committed so far, ``ages`` ``(n,)`` are the passes since its
    commit, from 1, and ``aged`` ``(n,)`` its drift as the mean over layers. ``prompt`` is the mean
    drift of the prompt, NaN without a prompt.
    """

    request: int
    step: int
    entropy: float
    confidence: float
    others: Floats
    committed: Floats
    ages: NDArray[np.int64]
    aged: Floats
    prompt: float


def transitions(
    engine: Engine, prompts: Sequence[Prompt], config: GenerationConfig
) -> Iterator[Transition]:
    """Decode each prompt without a cache, and yield the change of values after every commit.

    Windows and commits are those of ``config``. The last commit of a prompt has no pass after it,
    and so no transition. Raises ``OptionError`` or ``PromptError`` for what cannot be decoded.
    """
    plain = config.merge(policy="none")
    for number, prompt in enumerate(prompts):
        yield from _request(engine, engine.request(number, prompt, plain))


class _Observed(NoCache):
    """Decoding without a cache that keeps the value vectors of the latest pass.

    ``values`` are ``(layers, kv_heads, length, head_dim)``.
    """

    def __init__(self, engine: Engine, request: Request) -> None:
        self._engine, self._request = engine, request
        self.values = torch.empty(0)

    def observe(self, sequence: Canvas, step: Step) -> None:
        """Copy the values of the pass that led to this step."""
        # Here, not where the step is yielded: by then the slot of a finished request is closed.
        assert self._request.slot is not None
        # A copy, since the next pass rewrites the slot in place.
        self.values = self._engine.runner.store.slot(self._request.slot)[:, 1].clone()


def _request(engine: Engine, request: Request) -> Iterator[Transition]:
    start = request.sequence.start
    observed = request.policy = _Observed(engine, request)
    before: torch.Tensor | None = None
    positions = np.empty(0, np.int64)
    entropy, confidence, index = 0.0, 1.0, 0
    born = np.full(len(request.sequence), -1)
    for step in decode([request], engine.runner):
        values = observed.values
        # ``before`` and ``positions`` are those of the step before: its commit changed the canvas
        # between its own pass and this one.
        if before is not None and len(positions):
            drift = _drift(before, values)
            yield _transition(
                (request.id, index, entropy, confidence), drift, positions, born, step.index, start
            )
        before, positions, index = values, step.commit.positions, step.index
        if len(positions):
            entropy = float(step.entropies.max())
            confidence = float(step.scores.confidence[step.commit.chosen].min())
        born[positions] = step.index


def _drift(before: torch.Tensor, after: torch.Tensor) -> Floats:
    """1 - cosine of value vectors, the heads of a position side by side, ``(layers, length)``.

    ``before`` and ``after`` are ``(layers, heads, length, dim)``.
    """
    # In float64: small drifts would be lost in the rounding of a cosine near 1.
    a, b = (x.transpose(1, 2).flatten(2).double() for x in (before, after))
    drift: Floats = (1 - F.cosine_similarity(a, b, dim=-1)).clamp(min=0).cpu().numpy()
    return drift


def _transition(
    named: tuple[int, int, float, float],
    drift: Floats,
    positions: NDArray[np.int64],
    born: NDArray[np.int64],
    now: int,
    start: int,
) -> Transition:
    """The transition of a commit at ``positions``, from ``drift`` ``(layers, length)``.

    ``born`` ``(length,)`` are the steps at which positions were committed, -1 for none yet.
    """
    others = np.ones(drift.shape[1], dtype=bool)
    others[positions] = False
    old = np.flatnonzero(born >= 0)
    mean = drift.mean(axis=0)
    return Transition(
        *named,
        others=drift[:, others].mean(axis=1),
        committed=drift[:, positions].mean(axis=1),
        ages=now - born[old],
        aged=mean[old],
        prompt=float(mean[:start].mean()) if start else float("nan"),
    )
