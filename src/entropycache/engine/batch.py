"""The rows of many sequences in one pass, and each sequence's part of the packed tensors.

Attention runs sequence by sequence, each against its own slot of the store. The hooks of policies
that watch a pass are called here and nowhere else.
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
    """The rows of ``requests`` side by side, without padding.

    ``rows`` holds each request's positions in the current layer; a policy may widen them from one
    layer to the next. ``done`` counts each request's rows, summed over the layers so far.
    ``positions`` ``(rows,)`` are those of all requests, on the device.
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
        """Token ids of all rows, ``(rows,)``."""
        parts = [
            request.sequence.canvas[rows]
            for request, rows in zip(self.requests, self.rows, strict=True)
        ]
        return self._upload(np.concatenate(parts))

    def arrange(self, layer: int, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Inputs ``(rows, width)`` that a layer runs on, and its positions ``(rows,)``.

        ``x`` ``(rows, width)`` are the outputs of the layer before. They are stored for policies
        that keep ``inputs``. Where a policy asked for all positions in the layer before, these take
        the place of its sequence's rows. Where no rows change, ``x`` itself is returned, and
        ``None`` for the positions. Called as ``models.transformer.Arrange``.
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
                # Rows that this pass left out so far enter with the inputs they had in the last
                # pass that computed them, as in Elastic-Cache.
                parts[i], self.rows[i] = inputs, everything(self.requests[i].sequence)
        if not self._wider:
            return x, None
        self._wider.clear()
        self._lay_out()
        return torch.cat(parts), self.positions

    def indices(self, positions: Many[Positions]) -> Tensor:
        """Indices ``(n,)`` of each sequence's ``positions`` among all rows of the current layer.

        The positions of a sequence must be among its rows.
        """
        firsts = np.cumsum([0, *self._sizes])  # the last is the total, and no sequence's
        each = zip(firsts, self.rows, positions, strict=False)
        return self._upload(
            np.concatenate([first + np.searchsorted(rows, wanted) for first, rows, wanted in each])
        )

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Store keys and values of all rows, and return what each row attended to.

        q ``(rows, heads, head_dim)``, k and v ``(rows, kv_heads, head_dim)``; returns ``(rows,
        heads, head_dim)``. Called as ``models.transformer.Attend``.
        """
        split = zip(*(torch.split(x, self._sizes) for x in (q, k, v)), strict=True)
        mixed = [self._attend(layer, i, *parts) for i, parts in enumerate(split)]
        return mixed[0] if len(mixed) == 1 else torch.cat(mixed)

    def _attend(self, layer: int, i: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        slot, place, policy = self._slots[i], self._places[i], self.requests[i].policy
        self.done[i] += len(q)
        if not policy.watches:
            return attention(q, *self._store.write(layer, slot, place, k, v))
        with self._recorder.part("decision"):
            # From queries and keys of earlier passes, so before those of this pass replace them.
            before = self._before(layer, slot, policy)
        keys, values = self._store.write(layer, slot, place, k, v)
        if "queries" in policy.keeps:
            self._store.kept("queries", layer, slot).index_copy_(0, place, q)
        # Fused attention is the network's cost under any policy; what the weights take beyond it is
        # the price of watching.
        with self._recorder.excess("decision", lambda: attention(q, keys, values)):
            weights = attention_weights(q, keys)
            if policy.layer(layer, self.rows[i], weights, before):
                self._wider.add(i)
            return mix(weights, values)

    def _before(self, layer: int, slot: int, policy: Policy) -> Tensor | None:
        """Attention weights ``(heads, tracked, length)`` of the tracked positions, from what the
        store holds; ``None`` where nothing is tracked.
        """
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
    """The slot number of a request that the runner has opened."""
    assert request.slot is not None, "the runner opens a request before its first pass"
    return request.slot
