"""The pass of dLLM-Cache (arXiv 2506.06295). Every position stays in the residual stream, and the
outputs of attention and feed-forward layers are computed anew for some positions only.

It follows the released LLaDA hook. It knows the network and the store; the policy knows which parts
are due.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from entropycache.core.steps import Positions
from entropycache.engine.batch import slot_of
from entropycache.engine.kv_store import KVStore
from entropycache.engine.request import Request
from entropycache.engine.timing import NullRecorder
from entropycache.models.attention import attention
from entropycache.models.transformer import Layer, Transformer, rms_norm
from entropycache.policies.base import FeatureRefresh, everything


class DLLMCachePass:
    """One pass over one sequence. ``hidden`` runs it; ``work`` and ``rows`` count it then."""

    def __init__(
        self,
        network: Transformer,
        store: KVStore,
        request: Request,
        refresh: FeatureRefresh,
        recorder: NullRecorder,
    ) -> None:
        self._network, self._store, self._recorder = network, store, recorder
        self._slot, self._refresh = slot_of(request), refresh
        sequence, device = request.sequence, store.device
        every = everything(sequence)
        self._prompt = torch.from_numpy(every[: sequence.start]).to(device)
        self._response = torch.from_numpy(every[sequence.start :]).to(device)
        self._ids = torch.from_numpy(sequence.canvas).to(device)
        self._counts: list[int] = []
        self._last = torch.empty(0)

    def hidden(self) -> Tensor:
        """Hidden states of every position, ``(length, width)``, after the last norm."""
        x = F.embedding(self._ids, self._network.embedding)
        for index, layer in enumerate(self._network.typed_layers()):
            x = self._layer(x, layer, index)
        return rms_norm(x, self._network.norm, self._network.config.rms_norm_eps)

    @property
    def work(self) -> float:
        """The number of positions computed, as the mean over layers."""
        return float(np.mean(self._counts))

    @property
    def rows(self) -> Positions:
        """Positions ``(n,)`` that the last layer computed."""
        positions: Positions = self._last.cpu().numpy()
        return positions

    def _layer(self, x: Tensor, layer: Layer, index: int) -> Tensor:
        # As in the released code, the first layer computes every position in every pass.
        prompt = self._prompt if self._refresh.prompt or index == 0 else self._prompt[:0]
        whole = self._refresh.response or index == 0
        fresh, response = None, self._response
        if not whole:
            with self._recorder.part("decision"):
                fresh, response = self._drifted(x, layer, index)
        active = torch.cat((prompt, response))
        q, k, v = layer.project(x[active], self._network.rotary.at(active))
        keys, values = self._store.write(index, self._slot, active, k, v)
        # The new values of the whole response are there already, for the comparison: all are kept,
        # while keys and outputs stay those of the last pass that computed them.
        if fresh is not None:
            values.index_copy_(1, self._response, fresh.transpose(0, 1))
        attended = self._store.kept("attention", index, self._slot)
        attended.index_copy_(0, active, layer.attended(attention(q, keys, values)))
        x = x + attended
        mlp = self._store.kept("mlp", index, self._slot)
        mlp.index_copy_(0, active, layer.mlp(x[active]))
        self._counts.append(len(active))
        self._last = active
        return x + mlp

    def _drifted(self, x: Tensor, layer: Layer, index: int) -> tuple[Tensor | None, Tensor]:
        """New values ``(n, kv_heads, head_dim)`` of the whole response, and the positions of the
        share ``rou`` of it whose values drifted most; ``None`` and no positions for a share of 0.
        """
        count = int(self._refresh.rou * len(self._response))
        if not self._refresh.rou:
            return None, self._response[:0]
        fresh = layer.values(x[self._response])
        cached = self._store.slot(self._slot)[index, 1][:, self._response].transpose(0, 1)
        similarity = F.cosine_similarity(fresh.flatten(1), cached.flatten(1), dim=1)
        chosen = similarity.topk(count, largest=False).indices.sort().values  # ascending positions
        return fresh, self._response[chosen]
