"""Plans of many sequences become one packed forward pass over the store, and that becomes scores.

Linear layers see the rows of all sequences at once; attention runs sequence by sequence, each
against its own slot. The runner knows no policy and no strategy, only what a plan asks for.
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
        config = network.config
        # Everything that a slot may keep beside keys and values: queries after the rotary
        # embedding, inputs of layers, and the outputs of attention and feed-forward layers.
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
        """Give a request a slot of the store, with everything that its policy keeps in it."""
        request.slot = self.store.open(len(request.sequence), request.policy.keeps)

    def close(self, request: Request) -> None:
        """Release the slot of a request, if it has one."""
        if request.slot is not None:
            self.store.close(request.slot)
            request.slot = None

    @torch.inference_mode()
    def forward(self, requests: Many[Request], plans: Many[Plan]) -> list[Pass]:
        """One pass for all requests. Rows computed are the prediction rows of the positions that a
        plan predicts, and the positions that it refreshes.
        """
        for request in requests:
            if request.slot is None:
                self.open(request)
        pairs = list(zip(requests, plans, strict=True))
        refreshes = [request.policy.feature_refresh() for request in requests]
        with self.recorder.part("network"):
            packed = iter(
                self._packed([p for p, f in zip(pairs, refreshes, strict=True) if f is None])
            )
            parts = [
                next(packed) if refresh is None else self._apart(*pair, refresh)
                for pair, refresh in zip(pairs, refreshes, strict=True)
            ]
        return self._scored(requests, plans, parts)

    def _scored(self, requests: Many[Request], plans: Many[Plan], parts: Many[_Part]) -> list[Pass]:
        if self._chunk is not None:  # scores of the pass before are no longer asked for entropies
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
        """A full pass's logits ``(length, vocab_size)`` as the network returns them, without
        touching the store.
        """
        positions = torch.arange(len(ids), device=self._device)
        hidden = hidden_states(self.network, self._upload(ids)[None], positions, None)
        return self.network.logits(hidden)

    def _packed(self, pairs: Many[tuple[Request, Plan]]) -> list[_Part]:
        """The rows of all requests in one pass; keys and values of all rows are rewritten on the
        way.
        """
        if not pairs:
            return []
        with self.recorder.part("decision"):
            sources = [self.family.prediction_rows(plan.predict) for _, plan in pairs]
            rows = [
                _union(s, plan.refresh, len(request.sequence))
                for s, (request, plan) in zip(sources, pairs, strict=True)
            ]
        batch = RaggedBatch([r for r, _ in pairs], rows, self.store, self.recorder)
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
            _Part(p, r, n / layers)
            for p, r, n in zip(predicted, batch.rows, batch.done, strict=True)
        ]

    def _apart(self, request: Request, plan: Plan, refresh: FeatureRefresh) -> _Part:
        """A pass of its own for a request that caches features."""
        run = DLLMCachePass(self.network, self.store, request, refresh, self.recorder)
        hidden = run.hidden()[self._upload(self.family.prediction_rows(plan.predict))]
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
