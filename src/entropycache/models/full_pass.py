"""A full pass over sequences of one length, without a K/V store, for training and likelihoods."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from entropycache.models.transformer import Transformer, Wanted


def hidden_states(
    network: Transformer,
    inputs: Tensor,
    positions: Tensor,
    visible: Tensor | None,
    wanted: Wanted | None = None,
) -> Tensor:
    """Hidden states ``(sequences * length, width)``, or ``(n, width)`` of the ``wanted`` rows.

    ``inputs`` ``(sequences, length)`` are token ids, ``positions`` ``(length,)`` are shared by all
    sequences, and ``visible`` is an attention mask that broadcasts to ``(sequences, heads, length,
    length)``, or ``None`` where everything sees everything.
    """
    # All sequences are of one length, so that training can compile this function once.
    sequences = inputs.shape[0]

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        query, key, value = (
            x.view(sequences, -1, x.shape[1], x.shape[2]).transpose(1, 2) for x in (q, k, v)
        )
        mixed = F.scaled_dot_product_attention(
            query, key, value, visible, enable_gqa=q.shape[1] != k.shape[1]
        )
        return mixed.transpose(1, 2).reshape(q.shape)

    rows = positions.repeat(sequences)
    hidden: Tensor = network(inputs.flatten(), rows, attend, wanted=wanted)
    return hidden
