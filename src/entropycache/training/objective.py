"""What a network in training is asked for, over batches whose sequences all have one length.

The masked objective is LLaDA's (arXiv 2502.09992, section 2.3): a mask ratio t ~ U(0, 1) for each
example, masks on the answer only. Every example appears twice, under complementary masks, so that
one batch asks for every answer token exactly once. The autoregressive objective is the warm start:
each answer token is asked for at a mask token in its own position, from everything to its left.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import torch
import torch.nn.functional as F
from torch import Tensor

from entropycache.models.transformer import Transformer


class Objective(StrEnum):
    """How answers are asked for, and how the losses of masked tokens are weighted."""

    AUTOREGRESSIVE = "autoregressive"
    MASKED = "masked"
    """Masked diffusion, all masked tokens alike."""
    MASKED_INVERSE = "masked-inverse"
    """Masked diffusion, weighted by 1/t as in the likelihood bound."""


@dataclass(frozen=True)
class Batch:
    """``ids`` ``(sequences, length)`` and where each answer begins, ``(sequences,)``; ``first`` is
    a position before which the warm start asks for nothing.
    """

    ids: Tensor
    starts: Tensor
    first: int = 0


@dataclass(frozen=True)
class Question:
    """What the network reads and what it must say.

    ``inputs``, ``targets`` and ``asked`` are ``(sequences, rows)``, ``positions`` ``(rows,)``.
    ``weights`` ``(sequences,)`` scale the losses. ``visible`` ``(sequences, 1, rows, rows)`` limits
    attention; ``None`` is full attention.
    """

    inputs: Tensor
    positions: Tensor
    targets: Tensor
    asked: Tensor
    weights: Tensor
    visible: Tensor | None


def ask(batch: Batch, objective: Objective, mask_id: int, generator: torch.Generator) -> Question:
    """The question that ``objective`` puts to the network for a batch."""
    if objective is Objective.AUTOREGRESSIVE:
        return _left_to_right(batch, mask_id)
    return _masked(batch, objective, mask_id, generator)


def _masked(
    batch: Batch, objective: Objective, mask_id: int, generator: torch.Generator
) -> Question:
    """Ratios are stratified over the batch: one in each of as many equal intervals."""
    count, length = batch.ids.shape
    order = torch.randperm(count, generator=generator)
    ratio = (order + torch.rand(count, generator=generator)) / count
    answer = torch.arange(length) >= batch.starts[:, None]
    chosen = torch.rand(batch.ids.shape, generator=generator) < ratio[:, None]
    asked = torch.cat((answer & chosen, answer & ~chosen))
    targets = batch.ids.repeat(2, 1)
    weights = torch.ones(2 * count)
    if objective is Objective.MASKED_INVERSE:
        # Half, because each answer token is asked for once where the bound's expectation has t.
        weights = 0.5 / torch.cat((ratio, 1 - ratio)).clamp(min=1e-3)
    inputs = torch.where(asked, mask_id, targets)
    return Question(inputs, torch.arange(length), targets, asked, weights, None)


def _left_to_right(batch: Batch, mask_id: int) -> Question:
    """Two streams: the tokens, each seeing what is left of it, and masks at the same positions.

    A mask sees the tokens left of it and itself, and is asked for the token in its place: the
    form in which masked diffusion asks, so that what is learnt carries over. The prompt sees
    itself whole.
    """
    count, length = batch.ids.shape
    tokens, masks = torch.arange(length), torch.arange(batch.first, length)
    positions = torch.cat((tokens, masks))
    stream = torch.cat((torch.zeros_like(tokens), torch.ones_like(masks)))
    query, key = positions[:, None], positions[None, :]
    left = (stream[None, :] == 0) & (key < query)
    itself = (query == key) & (stream[:, None] == stream[None, :])
    start = batch.starts[:, None, None]
    prompt = (stream[None, :] == 0) & (key < start) & (query < start)
    inputs = torch.cat((batch.ids, torch.full((count, len(masks)), mask_id)), dim=1)
    targets = torch.cat((batch.ids, batch.ids[:, batch.first :]), dim=1)
    asked = (stream == 1) & (positions >= batch.starts[:, None])
    visible = (left | itself | prompt).unsqueeze(1)
    return Question(inputs, positions, targets, asked, torch.ones(count), visible)


def hidden_states(
    network: Transformer, inputs: Tensor, positions: Tensor, visible: Tensor | None
) -> Tensor:
    """Hidden states ``(sequences * rows, width)``; the part of a step worth compiling."""
    sequences = inputs.shape[0]

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        query, key, value = (
            x.view(sequences, -1, x.shape[1], x.shape[2]).transpose(1, 2) for x in (q, k, v)
        )
        mixed = F.scaled_dot_product_attention(
            query, key, value, visible, enable_gqa=q.shape[1] != k.shape[1]
        )
        return mixed.transpose(1, 2).reshape(q.shape)

    hidden: Tensor = network(inputs.flatten(), positions.repeat(sequences), attend)
    return hidden


def loss(network: Transformer, hidden: Tensor, question: Question) -> Tensor:
    """Weighted mean cross-entropy of the asked rows; the output head runs on these alone."""
    rows = question.asked.flatten().nonzero().squeeze(1)
    logits = network.logits(hidden[rows]).float()
    losses = F.cross_entropy(logits, question.targets.flatten()[rows], reduction="none")
    weights = question.weights.repeat_interleave(question.asked.shape[1])[rows]
    return (losses * weights).mean()
