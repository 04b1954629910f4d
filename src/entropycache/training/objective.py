"""The masked-diffusion objective of LLaDA, over batches whose sequences all have one length.

Follows arXiv 2502.09992, section 2.3: a mask ratio t ~ U(0, 1) for each example, masks on the answer only. Every
example appears twice, under complementary masks, so that one batch asks for every answer token exactly once.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from entropycache.models.transformer import Attend, Transformer


class Weighting(StrEnum):
    """How masked tokens count: all alike, or by 1/t as in the likelihood bound."""

    MEAN = "mean"
    INVERSE_RATIO = "inverse-ratio"


@dataclass(frozen=True)
class Batch:
    """``ids`` ``(sequences, length)`` and where each answer begins, ``(sequences,)``."""

    ids: Tensor
    starts: Tensor


@dataclass(frozen=True)
class Masked:
    """A batch twice over, with complementary masks: what the network reads, which entries it must fill, their ratios."""

    inputs: Tensor
    targets: Tensor
    masked: Tensor
    ratios: Tensor


def mask(batch: Batch, mask_id: int, generator: torch.Generator) -> Masked:
    """Mask each answer at a ratio drawn from U(0, 1), stratified over the batch, and once more with the complement."""
    count, length = batch.ids.shape
    strata = (torch.randperm(count, generator=generator) + torch.rand(count, generator=generator)) / count
    answer = torch.arange(length) >= batch.starts[:, None]
    chosen = torch.rand(batch.ids.shape, generator=generator) < strata[:, None]
    masked = torch.cat((answer & chosen, answer & ~chosen))
    targets = batch.ids.repeat(2, 1)
    ratios = torch.cat((strata, 1 - strata))
    return Masked(torch.where(masked, mask_id, targets), targets, masked, ratios)


@cache
def dense_attention(sequences: int, length: int) -> Attend:
    """Full bidirectional attention inside each of ``sequences`` equally long sequences."""

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        query, key, value = (x.view(sequences, length, -1, x.shape[-1]).transpose(1, 2) for x in (q, k, v))
        mixed = F.scaled_dot_product_attention(query, key, value, enable_gqa=query.shape[1] != key.shape[1])
        return mixed.transpose(1, 2).reshape(q.shape)

    return attend


def loss(network: Transformer, hidden: Tensor, batch: Masked, weighting: Weighting) -> Tensor:
    """The objective for hidden states ``(sequences * length, width)``; the head runs on masked rows alone."""
    rows = batch.masked.flatten().nonzero().squeeze(1)
    logits = network.logits(hidden[rows]).float()
    losses = F.cross_entropy(logits, batch.targets.flatten()[rows], reduction="none")
    if weighting is Weighting.MEAN:
        return losses.mean()
    inverse = 1 / batch.ratios.clamp(min=1e-3).repeat_interleave(batch.masked.shape[1])[rows]
    # The complementary masks name each answer token once, so the number of losses is the number of answer tokens.
    return (losses * inverse).sum() / len(rows) / 2
