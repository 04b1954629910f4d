"""Plans of many sequences become one packed forward pass over the store, and that becomes scores.

Linear layers see the rows of all sequences at once; attention runs sequence by sequence, each
against its own slot. The runner knows no policy and no strategy, only what a plan asks for.
"""

from __future__ import annotations

from collections.abc import Sequence as Many
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from entropycache.models.family import Family
from entropycache.models.transformer import Transformer
from entropycache.plan import Plan, Positions, Scores
from entropycache.scoring import Chunk, Sampler, score
from entropycache.sequence import Sequence
from entropycache.store import Store


@dataclass(frozen=True)
class Job:
    """One sequence's part in a pass: its canvas, its slot, its sampler, and the plan."""

    sequence: Sequence
    slot: int
    sampler: Sampler
    plan: Plan


@dataclass(frozen=True)
class Pass:
    """What a pass gave one sequence. ``scores`` is ``None`` where the network returned NaN or
    infinite logits.
    """

    scores: Scores | None
    rows: Positions


def attention(q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Bidirectional attention of q ``(rows, heads, head_dim)`` over keys and values ``(kv_heads,
    length, head_dim)``.

    Without a mask, the query heads that share a key head are as good as more rows: nothing is
    repeated.
    """
    rows, heads, dim = q.shape
    shared = len(keys)
    grouped = (
        q.view(rows, shared, heads // shared, dim).permute(1, 2, 0, 3).reshape(shared, -1, dim)
    )
    mixed = F.scaled_dot_product_attention(grouped[None], keys[None], values[None])[0]
    return (
        mixed.view(shared, heads // shared, rows, dim).permute(2, 0, 1, 3).reshape(rows, heads, dim)
    )


class Runner:
    """Runs passes of one network. One thread at a time: the store has one owner."""

    def __init__(self, network: Transformer, family: Family, mask_id: int) -> None:
        shape, weight = network.shape, network.embedding
        self.network = network
        self.family = family
        self.mask_id = mask_id
        self.store = Store(
            shape.layers, shape.kv_heads, shape.head_dim, weight.dtype, weight.device
        )
        self._device = weight.device
        self._chunk: Chunk | None = None

    @torch.inference_mode()
    def forward(self, jobs: Many[Job]) -> list[Pass]:
        """One pass. Rows computed are the model's sources of what is predicted, and what is
        refreshed.
        """
        sources = [self.family.sources(job.plan.predict) for job in jobs]
        rows = [
            _union(s, job.plan.refresh, len(job.sequence))
            for s, job in zip(sources, jobs, strict=True)
        ]
        hidden = self._hidden(jobs, rows)
        firsts = np.cumsum([0, *(len(r) for r in rows)])
        wanted = [f + np.searchsorted(r, s) for f, r, s in zip(firsts, rows, sources, strict=False)]
        predicted = hidden[self._upload(np.concatenate(wanted))]
        if self._chunk is not None:
            self._chunk.release()
        scores, self._chunk = score(
            self.network.logits,
            predicted,
            [len(job.plan.predict) for job in jobs],
            [job.sampler for job in jobs],
            self.mask_id,
            self.network.shape.vocab_size,
        )
        return [Pass(s, r) for s, r in zip(scores, rows, strict=True)]

    @torch.no_grad()
    def logits(self, ids: Positions) -> Tensor:
        """A full pass's logits ``(length, vocab_size)`` as the network returns them, without
        touching the store.
        """
        positions = torch.arange(len(ids), device=self._device)

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return attention(q, k.transpose(0, 1), v.transpose(0, 1))

        return self.network.logits(self.network(self._upload(ids), positions, attend))

    def _hidden(self, jobs: Many[Job], rows: Many[Positions]) -> Tensor:
        """Hidden states of all rows, packed; keys and values of all rows are rewritten on the
        way.
        """
        positions = self._upload(np.concatenate(rows))
        ids = self._upload(
            np.concatenate([j.sequence.canvas[r] for j, r in zip(jobs, rows, strict=True)])
        )
        sizes = [len(r) for r in rows]
        places = torch.split(positions, sizes)

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            parts = zip(jobs, places, *(torch.split(x, sizes) for x in (q, k, v)), strict=True)
            mixed = [
                attention(own_q, *self.store.write(layer, job.slot, place, own_k, own_v))
                for job, place, own_q, own_k, own_v in parts
            ]
            return mixed[0] if len(mixed) == 1 else torch.cat(mixed)

        hidden: Tensor = self.network(ids, positions, attend)
        return hidden

    def _upload(self, values: Positions) -> Tensor:
        return torch.from_numpy(values).to(self._device, non_blocking=True)


def _union(sources: Positions, refresh: Positions, length: int) -> Positions:
    """Ascending positions in either; cheap where everything is refreshed, as sources then add
    nothing.
    """
    if len(refresh) == length:
        return refresh
    return np.union1d(sources, refresh)
