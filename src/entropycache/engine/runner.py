"""One packed forward pass over the store for the plans of many sequences, and the scores it gives.

Linear layers see the rows of all sequences at once; attention runs sequence by sequence, each
against its own slot. The runner knows no policy and no strategy by name, only plans.
"""

from __future__ import annotations

from collections.abc import Sequence as Many
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from entropycache.core.steps import Plan, Positions, Scores
from entropycache.engine.batch import RaggedBatch
from entropycache.engine.feature_pass import DLLMCachePass
from entropycache.engine.kv_store import KVStore
from entropycache.engine.request import Request
from entropycache.engine.scoring import Chunk, score
from entropycache.engine.timing import NullRecorder
from entropycache.models.family import Family
from entropycache.models.full_pass import hidden_states
from entropycache.models.transformer import Transformer
from entropycache.policies.base import FeatureRefresh


@dataclass(frozen=True)
class Pass:
    """The result of a pass for one sequence.

    ``scores`` is ``None`` where the network returned NaN or infinite logits. ``rows`` ``(n,)`` are
    the positions that the last layer computed, ``work`` the number of positions computed, as the
    mean over layers.
    """

    scores: Scores | None
    rows: Positions
    work: float


@dataclass(frozen=True)
class _Part:
    """One sequence's part of a pass, not yet scored; ``predicted`` ``(n, width)`` are the hidden
    states of its prediction rows.
    """

    predicted: Tensor
    rows: Positions
    work: float


class Runner:
    """Runs the forward passes of one network, and owns the store they read and write.

    It must be used by one thread at a time.
    """

    def __init__(self, network: Transformer, family: Family, mask_id: int) -> None:
        weight = network.embedding
        self.network = network
        self.family = family
        self.mask_id = mask_id
        config = network.config
        # The names that a policy may list in ``keeps``: queries after the rotary embedding, inputs
        # of layers, and outputs of attention and feed-forward layers.
        extras: dict[str, tuple[int, ...]] = {
            "queries": (config.num_attention_heads, config.head_dim)
        }
        extras |= {name: (config.hidden_size,) for name in ("inputs", "attention", "mlp")}
        heads = (config.num_hidden_layers, config.num_key_value_heads, config.head_dim)
        self.store = KVStore(heads, extras, weight.dtype, weight.device)
        self.recorder: NullRecorder = NullRecorder()
        self._device = weight.device
        self._chunk: Chunk | None = None

    def open(self, request: Request) -> None:
        """Reserve a slot of the store for a request, with the tensors that its policy keeps."""
        request.slot = self.store.open(len(request.sequence), request.policy.keeps)

    def close(self, request: Request) -> None:
        """Release the slot of a request, if it has one."""
        if request.slot is not None:
            self.store.close(request.slot)
            request.slot = None

    @torch.inference_mode()
    def forward(self, requests: Many[Request], plans: Many[Plan]) -> list[Pass]:
        """Run one pass for all requests and return the result of each, in their order.

        The rows computed are the prediction rows of ``Plan.predict``, and ``Plan.refresh``. A
        request without a slot is given one. Entropies of the scores can be read until the next
        call.
        """
        for request in requests:
            if request.slot is None:
                self.open(request)
        pairs = list(zip(requests, plans, strict=True))
        refreshes = [request.policy.feature_refresh() for request in requests]
        with self.recorder.part("network"):
            # A request that caches features runs by itself: its residual stream holds every
            # position, and its layers compute rows of their own choice, so no rows can be packed.
            packed = iter(
                self._packed([p for p, f in zip(pairs, refreshes, strict=True) if f is None])
            )
            parts = [
                next(packed) if refresh is None else self._apart(*pair, refresh)
                for pair, refresh in zip(pairs, refreshes, strict=True)
            ]
        return self._scored(requests, plans, parts)

    def _scored(self, requests: Many[Request], plans: Many[Plan], parts: Many[_Part]) -> list[Pass]:
        # Steps that a caller has kept would otherwise keep the logits of every pass alive.
        if self._chunk is not None:
            self._chunk.release()
        with self.recorder.part("sampling"):
            scores, self._chunk = score(
                self._head,
                torch.cat([part.predicted for part in parts]),
                [len(plan.predict) for plan in plans],
                [request.sampler for request in requests],
                self.mask_id,
                self.network.config.vocab_size,
            )
        return [Pass(s, part.rows, part.work) for s, part in zip(scores, parts, strict=True)]

    def _head(self, hidden: Tensor) -> Tensor:
        with self.recorder.part("network"):
            return self.network.logits(hidden)

    @torch.no_grad()
    def logits(self, ids: Positions) -> Tensor:
        """Logits ``(length, vocab_size)`` of a full pass over ``ids`` ``(length,)``, as the network
        returns them; the store is neither read nor written.
        """
        positions = torch.arange(len(ids), device=self._device)
        hidden = hidden_states(self.network, self._upload(ids)[None], positions, None)
        return self.network.logits(hidden)

    def _packed(self, pairs: Many[tuple[Request, Plan]]) -> list[_Part]:
        """One pass over the rows of all these requests, which rewrites their keys and values."""
        if not pairs:
            return []
        with self.recorder.part("decision"):
            sources = [self.family.prediction_rows(plan.predict) for _, plan in pairs]
            rows = [
                _union(s, plan.refresh, len(request.sequence))
                for s, (request, plan) in zip(sources, pairs, strict=True)
            ]
        batch = RaggedBatch([r for r, _ in pairs], rows, self.store, self.recorder)
        # In the last layer all rows rewrite keys and values, but nothing reads the output of a row
        # that predicts nothing: only prediction rows go on from there. Their indices are asked for
        # late, as a policy may widen the rows on the way.
        hidden = self.network(
            batch.ids(),
            batch.positions,
            batch.attend,
            batch.arrange,
            lambda: batch.indices(sources),
        )
        predicted = hidden.split([len(s) for s in sources])
        layers = self.network.config.num_hidden_layers
        return [
            _Part(states, rows, count / layers)
            for states, rows, count in zip(predicted, batch.rows, batch.done, strict=True)
        ]

    def _apart(self, request: Request, plan: Plan, refresh: FeatureRefresh) -> _Part:
        """One pass for a request that caches features."""
        run = DLLMCachePass(self.network, self.store, request, refresh, self.recorder)
        hidden = run.hidden()[self._upload(self.family.prediction_rows(plan.predict))]
        return _Part(hidden, run.rows, run.work)

    def _upload(self, values: Positions) -> Tensor:
        return torch.from_numpy(values).to(self._device, non_blocking=True)


def _union(sources: Positions, refresh: Positions, length: int) -> Positions:
    """Positions in either, ascending."""
    # A full pass needs no sorting of thousands of positions: prediction rows add nothing to it.
    if len(refresh) == length:
        return refresh
    return np.union1d(sources, refresh)
