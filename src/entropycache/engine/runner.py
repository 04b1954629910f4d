"""Plans of many sequences become one packed forward pass over the store, and that becomes scores.

Linear layers see the rows of all sequences at once; attention runs sequence by sequence, each
against its own slot. The runner knows no policy and no strategy, only what a plan asks for.
"""

from __future__ import annotations

from collections.abc import Sequence as Many
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor

from entropycache.core.steps import Positions, Scores
from entropycache.engine.batch import Job, Packed
from entropycache.engine.feature_pass import FeaturePass
from entropycache.engine.kv_store import Store
from entropycache.engine.scoring import Chunk, score
from entropycache.models.family import Family
from entropycache.models.full_pass import hidden_states
from entropycache.models.transformer import Transformer
from entropycache.policies.base import KeepsFeatures, Policy, Probe


@dataclass(frozen=True)
class Pass:
    """What a pass gave one sequence. ``scores`` is ``None`` where the network returned NaN or
    infinite logits; ``rows`` are the positions the last layer computed, ``work`` the mean over
    layers.
    """

    scores: Scores | None
    rows: Positions
    work: float


@dataclass(frozen=True)
class _Part:
    """One sequence's share of the network's work: hidden states ``(n, width)`` of what it predicts
    from.
    """

    predicted: Tensor
    rows: Positions
    work: float


class Runner:
    """Runs passes of one network. One thread at a time: the store has one owner."""

    def __init__(self, network: Transformer, family: Family, mask_id: int) -> None:
        weight = network.embedding
        self.network = network
        self.family = family
        self.mask_id = mask_id
        s = network.shape
        # What a slot may keep beside keys and values: queries after the rotary embedding, inputs of
        # layers, and what attention and feed-forward layers put out.
        extras: dict[str, tuple[int, ...]] = {"queries": (s.heads, s.head_dim)}
        extras |= {name: (s.width,) for name in ("inputs", "attention", "mlp")}
        self.store = Store((s.layers, s.kv_heads, s.head_dim), extras, weight.dtype, weight.device)
        self._probes: dict[type, bool] = {}
        self._keepers: dict[type, bool] = {}
        self._device = weight.device
        self._chunk: Chunk | None = None

    def open(self, length: int, policy: Policy) -> int:
        """A slot of the store with everything that the policy keeps in it."""
        # Looked up by type from then on: asking a protocol takes longer than planning a pass.
        self._probes[type(policy)] = isinstance(policy, Probe)
        self._keepers[type(policy)] = isinstance(policy, KeepsFeatures)
        return self.store.open(length, getattr(policy, "keeps", ()))

    @torch.inference_mode()
    def forward(self, jobs: Many[Job]) -> list[Pass]:
        """One pass. Rows computed are the model's sources of what is predicted, and what is
        refreshed.
        """
        apart = [job for job in jobs if self._keepers.get(type(job.policy), False)]
        together = [job for job in jobs if not self._keepers.get(type(job.policy), False)]
        parts = {id(job): self._alone(job) for job in apart}
        if together:
            parts |= zip(map(id, together), self._packed(together), strict=True)
        ordered = [parts[id(job)] for job in jobs]
        if self._chunk is not None:
            self._chunk.release()
        scores, self._chunk = score(
            self.network.logits,
            torch.cat([part.predicted for part in ordered]),
            [len(job.plan.predict) for job in jobs],
            [job.sampler for job in jobs],
            self.mask_id,
            self.network.shape.vocab_size,
        )
        return [Pass(s, part.rows, part.work) for s, part in zip(scores, ordered, strict=True)]

    @torch.no_grad()
    def logits(self, ids: Positions) -> Tensor:
        """A full pass's logits ``(length, vocab_size)`` as the network returns them, without
        touching the store.
        """
        positions = torch.arange(len(ids), device=self._device)
        hidden = hidden_states(self.network, self._upload(ids)[None], positions, None)
        return self.network.logits(hidden)

    def _packed(self, jobs: Many[Job]) -> list[_Part]:
        """The rows of all jobs in one pass; keys and values of all rows are rewritten on the
        way.
        """
        sources = [self.family.sources(job.plan.predict) for job in jobs]
        rows = [
            _union(s, job.plan.refresh, len(job.sequence))
            for s, job in zip(sources, jobs, strict=True)
        ]
        probes = [j.policy if self._probes.get(type(j.policy), False) else None for j in jobs]
        packed = Packed(jobs, rows, cast("list[Probe | None]", probes), self.store, self._device)
        hidden = self.network(
            packed.ids(),
            packed.positions,
            packed.attend,
            packed.arrange,
            lambda: packed.indices(sources),
        )
        predicted = hidden.split([len(s) for s in sources])
        layers = self.network.shape.layers
        return [
            _Part(p, r, n / layers)
            for p, r, n in zip(predicted, packed.rows, packed.done, strict=True)
        ]

    def _alone(self, job: Job) -> _Part:
        run = FeaturePass(self.network, self.store, job, cast("KeepsFeatures", job.policy))
        hidden = run.hidden()[self._upload(self.family.sources(job.plan.predict))]
        return _Part(hidden, run.rows, run.work)

    def _upload(self, values: Positions) -> Tensor:
        return torch.from_numpy(values).to(self._device, non_blocking=True)


def _union(sources: Positions, refresh: Positions, length: int) -> Positions:
    """Ascending positions in either; cheap where everything is refreshed, as sources then add
    nothing.
    """
    if len(refresh) == length:
        return refresh
    return np.union1d(sources, refresh)
