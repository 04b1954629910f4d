"""The rows of many sequences in one pass: which rows of the packed tensor are whose, layer by
layer.

Attention runs sequence by sequence, each against its own slot; policies that watch the pass are
asked here, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence as Many
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from entropycache.core.sequence import Sequence
from entropycache.core.steps import Plan, Positions
from entropycache.engine.kv_store import Store
from entropycache.engine.scoring import Sampler
from entropycache.models.attention import attention, attention_weights, mix
from entropycache.policies.base import Policy, Probe, everything


@dataclass(frozen=True)
class Job:
    """One sequence's part in a pass: its canvas, its slot, its sampler, its policy, the plan."""

    sequence: Sequence
    slot: int
    sampler: Sampler
    policy: Policy
    plan: Plan


class Packed:
    """The rows of ``jobs`` side by side. ``rows`` are those of the layer at hand, ``done`` counts
    them over the layers. ``probes`` are the policies that watch the pass, ``None`` for the others.
    """

    def __init__(
        self,
        jobs: Many[Job],
        rows: Many[Positions],
        probes: Many[Probe | None],
        store: Store,
        device: torch.device,
    ) -> None:
        self.jobs = jobs
        self.rows = list(rows)
        self.done = [0] * len(jobs)
        self._store, self._device = store, device
        self._probes = probes
        self._keeping = [i for i, p in enumerate(self._probes) if p and "inputs" in p.keeps]
        self._wider: set[int] = set()
        self._lay_out()

    def ids(self) -> Tensor:
        """Token ids of all rows."""
        parts = [job.sequence.canvas[r] for job, r in zip(self.jobs, self.rows, strict=True)]
        return self._upload(np.concatenate(parts))

    def arrange(self, layer: int, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Keep the inputs of a layer where they are to be kept, and put all positions of a sequence
        in place of its rows where its policy asked for that in the layer before.
        """
        if not self._keeping:
            return x, None
        parts = list(torch.split(x, self._sizes))
        for i in self._keeping:
            inputs = self._store.kept("inputs", layer, self.jobs[i].slot)
            inputs.index_copy_(0, self._places[i], parts[i])
            if i in self._wider:
                parts[i], self.rows[i] = inputs, everything(self.jobs[i].sequence)
        if not self._wider:
            return x, None
        self._wider.clear()
        self._lay_out()
        return torch.cat(parts), self.positions

    def indices(self, positions: Many[Positions]) -> Tensor:
        """Where in the layer at hand each sequence's ``positions`` are, which are among its
        rows.
        """
        firsts = np.cumsum([0, *self._sizes])
        found = zip(firsts, self.rows, positions, strict=False)
        return self._upload(np.concatenate([f + np.searchsorted(r, p) for f, r, p in found]))

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Rewrite keys and values of all rows, and attend, sequence by sequence."""
        split = zip(*(torch.split(x, self._sizes) for x in (q, k, v)), strict=True)
        mixed = [self._attend(layer, i, *parts) for i, parts in enumerate(split)]
        return mixed[0] if len(mixed) == 1 else torch.cat(mixed)

    def _attend(self, layer: int, i: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        slot, place, probe = self.jobs[i].slot, self._places[i], self._probes[i]
        self.done[i] += len(q)
        if probe is None:
            return attention(q, *self._store.write(layer, slot, place, k, v))
        before = self._before(layer, slot, probe)
        keys, values = self._store.write(layer, slot, place, k, v)
        if "queries" in probe.keeps:
            self._store.kept("queries", layer, slot).index_copy_(0, place, q)
        weights = attention_weights(q, keys)
        if probe.layer(layer, self.rows[i], weights, before):
            self._wider.add(i)
        return mix(weights, values)

    def _before(self, layer: int, slot: int, probe: Probe) -> Tensor | None:
        tracked = probe.tracked(layer)
        if not len(tracked):
            return None
        queries = self._store.kept("queries", layer, slot)[self._upload(tracked)]
        return attention_weights(queries, self._store.slot(slot)[layer, 0])

    def _lay_out(self) -> None:
        self._sizes = [len(r) for r in self.rows]
        self.positions = self._upload(np.concatenate(self.rows))
        self._places = torch.split(self.positions, self._sizes)

    def _upload(self, values: Positions) -> Tensor:
        return torch.from_numpy(values).to(self._device, non_blocking=True)
