"""What a network in training is asked for, over batches whose sequences all have one length.

The masked objective is LLaDA's (arXiv 2502.09992, section 2.3): a mask ratio t ~ U(0, 1) for each
answer, masks on answers only. Every example appears twice, under complementary masks, so that one
batch asks for every answer token exactly once. The autoregressive objective is the warm start: each
answer token is asked for at a mask token in its own position, from everything to its left. The
answers of worked examples in front of a question are asked for as the last one is, so that a long
prompt teaches as much a row as a short one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from entropycache.models.transformer import Transformer, Wanted


class Objective(StrEnum):
    """How answers are asked for, and how the losses of masked tokens are weighted."""

    AUTOREGRESSIVE = "autoregressive"
    MASKED = "masked"
    """Masked diffusion, all masked tokens alike."""
    MASKED_INVERSE = "masked-inverse"
    """Masked diffusion, weighted by 1/t as in the likelihood bound."""


@dataclass(frozen=True)
class Batch:
    """``ids`` and ``answers``, both ``(sequences, length)``: at each position the number of the
    answer it belongs to, counted from 1 through the batch, and 0 in a prompt.

    With ``first`` the warm start has a mask at every position from there on, asked for or not, so
    that batches of one length are of one shape; without, only where some answer lies.
    """

    ids: Tensor
    answers: Tensor
    first: int | None = None


@dataclass(frozen=True)
class Question:
    """What the network reads and what it must say.

    ``inputs``, ``targets`` and ``asked`` are ``(sequences, rows)``, ``positions`` ``(rows,)``.
    ``weights`` ``(sequences, rows)`` scale the losses. ``visible`` ``(sequences, 1, rows, rows)``
    limits attention; ``None`` is full attention.
    """

    inputs: Tensor
    positions: Tensor
    targets: Tensor
    asked: Tensor
    weights: Tensor
    visible: Tensor | None

    @cached_property
    def rows(self) -> Tensor:
        """Indices ``(n,)`` of the asked rows of all sequences."""
        return self.asked.flatten().nonzero().squeeze(1)


def ask(batch: Batch, objective: Objective, mask_id: int, generator: torch.Generator) -> Question:
    """The question that ``objective`` puts to the network for a batch."""
    if objective is Objective.AUTOREGRESSIVE:
        return _left_to_right(batch, mask_id)
    return _masked(batch, objective, mask_id, generator)


def _masked(
    batch: Batch, objective: Objective, mask_id: int, generator: torch.Generator
) -> Question:
    """Ratios are stratified over the batch's answers: one in each of as many equal intervals."""
    count = int(batch.answers.max())
    order = torch.randperm(count, generator=generator)
    ratio = ((order + torch.rand(count, generator=generator)) / count)[batch.answers - 1]
    answer = batch.answers > 0
    chosen = torch.rand(batch.ids.shape, generator=generator) < ratio
    asked = torch.cat((answer & chosen, answer & ~chosen))
    targets = batch.ids.repeat(2, 1)
    weights = torch.ones(targets.shape)
    if objective is Objective.MASKED_INVERSE:
        # Half, because each answer token is asked for once where the bound's expectation has t.
        weights = 0.5 / torch.cat((ratio, 1 - ratio)).clamp(min=1e-3)
    inputs = torch.where(asked, mask_id, targets)
    return Question(inputs, torch.arange(batch.ids.shape[1]), targets, asked, weights, None)


def _left_to_right(batch: Batch, mask_id: int) -> Question:
    """Two streams: the tokens, each seeing what is left of it, and masks at the same positions.

    A mask sees the tokens left of it and itself, and is asked for the token in its place: the
    form in which masked diffusion asks, so that what is learnt carries over. A prompt, each
    question of a chat, sees itself whole.
    """
    answers = batch.answers
    count, length = batch.ids.shape
    tokens = torch.arange(length)
    masks = tokens[(answers > 0).any(0)] if batch.first is None else tokens[batch.first :]
    positions = torch.cat((tokens, masks))
    stream = torch.cat((torch.zeros_like(tokens), torch.ones_like(masks)))
    query, key = positions[:, None], positions[None, :]
    left = (stream[None, :] == 0) & (key < query)
    itself = (query == key) & (stream[:, None] == stream[None, :])
    ends = answers[:, 1:] != answers[:, :-1]
    turn = F.pad(ends.cumsum(1), (1, 0)).masked_fill(answers > 0, -1)[:, positions]
    prompt = (turn[:, :, None] == turn[:, None, :]) & (turn >= 0)[:, None, :]
    inputs = torch.cat((batch.ids, torch.full((count, len(masks)), mask_id)), dim=1)
    targets = batch.ids[:, positions]
    asked = (stream == 1) & (answers[:, positions] > 0)
    visible = (left | itself | (prompt & (stream[None, :] == 0))).unsqueeze(1)
    return Question(inputs, positions, targets, asked, torch.ones(targets.shape), visible)


def hidden_states(
    network: Transformer,
    inputs: Tensor,
    positions: Tensor,
    visible: Tensor | None,
    wanted: Wanted | None = None,
) -> Tensor:
    """Hidden states ``(sequences * rows, width)``, or of the ``wanted`` rows alone, ``(n, width)``;
    the part of a step worth compiling, for which all rows are of one shape.
    """
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


def loss(network: Transformer, hidden: Tensor, question: Question) -> Tensor:
    """Weighted mean cross-entropy of the asked rows, whose hidden states are ``(n, width)``."""
    rows = question.rows
    logits = network.logits(hidden).float()
    losses = F.cross_entropy(logits, question.targets.flatten()[rows], reduction="none")
    return (losses * question.weights.flatten()[rows]).mean()
