"""The rows of many sequences in one pass: which rows of the packed tensor are whose, layer by
layer.

Attention runs sequence by sequence, each against its own slot; policies that watch the pass are
asked here, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence as Many

import numpy as np
import torch
from torch import Tensor

from entropycache.core.steps import Positions
from entropycache.engine.kv_store import KVStore
from entropycache.engine.request import Request
from entropycache.engine.timing import NullRecorder
from entropycache.models.attention import attention, attention_weights, mix
from entropycache.policies.base import Policy, everything


class RaggedBatch:
    """The rows of ``requests`` side by side. ``rows`` are those of the layer at hand, ``done``
    counts them over the layers.
    """

    def __init__(
        self,
        requests: Many[Request],
        rows: Many[Positions],
        store: KVStore,
        recorder: NullRecorder,
    ) -> None:
        self.requests = requests
        self.rows = list(rows)
        self.done = [0] * len(requests)
        self._store, self._recorder = store, recorder
        self._slots = [slot_of(request) for request in requests]
        self._keeping = [i for i, r in enumerate(requests) if "inputs" in r.policy.keeps]
        self._wider: set[int] = set()
        self._lay_out()

    def ids(self) -> Tensor:
        """Token ids of all rows."""
        parts = [
            request.sequence.canvas[rows]
            for request, rows in zip(self.requests, self.rows, strict=True)
        ]
        return self._upload(np.concatenate(parts))

    def arrange(self, layer: int, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Keep the inputs of a layer where they are to be kept, and put all positions of a sequence
        in place of its rows where its policy asked for that in the layer before.
        """
        if not self._keeping:
            return x, None
        with self._recorder.part("decision"):
            return self._keep_inputs(layer, x)

    def _keep_inputs(self, layer: int, x: Tensor) -> tuple[Tensor, Tensor | None]:
        parts = list(torch.split(x, self._sizes))
        for i in self._keeping:
            inputs = self._store.kept("inputs", layer, self._slots[i])
            inputs.index_copy_(0, self._places[i], parts[i])
            if i in self._wider:
                parts[i], self.rows[i] = inputs, everything(self.requests[i].sequence)
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
        slot, place, policy = self._slots[i], self._places[i], self.requests[i].policy
        self.done[i] += len(q)
        if not policy.watches:
            return attention(q, *self._store.write(layer, slot, place, k, v))
        with self._recorder.part("decision"):
            # With the keys and queries of earlier passes: asked for before this one's are written.
            before = self._before(layer, slot, policy)
        keys, values = self._store.write(layer, slot, place, k, v)
        if "queries" in policy.keeps:
            self._store.kept("queries", layer, slot).index_copy_(0, place, q)
        with self._recorder.excess("decision", lambda: attention(q, keys, values)):
            weights = attention_weights(q, keys)
            if policy.layer(layer, self.rows[i], weights, before):
                self._wider.add(i)
            return mix(weights, values)

    def _before(self, layer: int, slot: int, policy: Policy) -> Tensor | None:
        tracked = policy.tracked(layer)
        if not len(tracked):
            return None
        queries = self._store.kept("queries", layer, slot)[self._upload(tracked)]
        return attention_weights(queries, self._store.slot(slot)[layer, 0])

    def _lay_out(self) -> None:
        self._sizes = [len(r) for r in self.rows]
        self.positions = self._upload(np.concatenate(self.rows))
        self._places = torch.split(self.positions, self._sizes)

    def _upload(self, values: Positions) -> Tensor:
        return torch.from_numpy(values).to(self._store.device, non_blocking=True)


def slot_of(request: Request) -> int:
    """The slot of a request that the runner has opened."""
    assert request.slot is not None, "the runner opens a request before its first pass"
    return request.slot
