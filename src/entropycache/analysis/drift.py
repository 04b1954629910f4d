"""How keys and values change from one full pass to the next while a canvas is filled in.

Observation 1 of EntropyCache (arXiv 2603.18489) is that the entropy of the token just committed
predicts the drift that follows; observation 2 that a position goes on changing for several steps
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
    """From the pass that led to a commit to the pass after it.

    ``entropy`` (nats) and ``confidence`` are the largest and the smallest of the commit. ``others``
    ``(layers,)`` is the mean drift, 1 - cosine of the value vectors, over all positions that the
    commit did not write; ``committed`` ``(layers,)`` over those it wrote. ``ages`` and ``aged``
    ``(n,)`` give, for every generated position committed so far, the passes since its commit, from
    1, and its drift as the mean over layers; ``prompt`` is the mean drift of the prompt, NaN where
    there is none.
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
    """Decode each prompt without a cache, under the windows and commits of ``config``, and yield
    what every commit changed; the last commit of a prompt has no pass after it.
    """
    plain = config.merge(policy="none")
    for number, prompt in enumerate(prompts):
        yield from _request(engine, engine.request(number, prompt, plain))


class _Observed(NoCache):
    """No cache, keeping the value vectors of the latest pass: ``values`` ``(layers, kv_heads,
    length, head_dim)``.
    """

    def __init__(self, engine: Engine, request: Request) -> None:
        self._engine, self._request = engine, request
        self.values = torch.empty(0)

    def observe(self, sequence: Canvas, step: Step) -> None:
        """Keep the values here, not where the step is yielded: the slot of a finished request is
        closed by then.
        """
        assert self._request.slot is not None
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
    """1 - cosine of value vectors, heads side by side: two ``(layers, heads, length, dim)`` to
    ``(layers, length)``.
    """
    a, b = (x.transpose(1, 2).flatten(2).double() for x in (before, after))
    found: Floats = (1 - F.cosine_similarity(a, b, dim=-1)).clamp(min=0).cpu().numpy()
    return found


def _transition(
    named: tuple[int, int, float, float],
    drift: Floats,
    positions: NDArray[np.int64],
    born: NDArray[np.int64],
    now: int,
    start: int,
) -> Transition:
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
