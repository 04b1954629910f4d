"""What a network in training is asked for, over batches whose sequences all have one length.

The masked objective is LLaDA's (arXiv 2502.09992, section 2.3): a mask ratio t ~ U(0, 1) for each
answer, masks on answers only. Every example appears twice, under complementary masks, so that one
batch asks for every answer token exactly once. The autoregressive objective is the warm start: each
answer token is asked for at a mask token in its own position, from everything to its left. Between
the two lie blocks, as block diffusion trains them (arXiv 2503.09573), and prefixes, the states that
decoding from the left passes through. The answers of worked examples in front of a question are
asked for as the last one is, so that a long prompt teaches as much a row as a short one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from entropycache.models.transformer import Transformer, Wanted

FAR_WEIGHT = 1.0
"""Of a mask behind the positions that ``Objective.PREFIX`` is about."""


class Objective(StrEnum):
    """How answers are asked for, and how the losses of masked tokens are weighted."""

    AUTOREGRESSIVE = "autoregressive"
    MASKED = "masked"
    """Masked diffusion, all masked tokens alike."""
    MASKED_INVERSE = "masked-inverse"
    """Masked diffusion, weighted by 1/t as in the likelihood bound."""
    BLOCKS = "blocks"
    """Masked diffusion within blocks of 4 to 32, all before the block known and nothing behind."""
    PREFIX = "prefix"
    """Masked diffusion within the next 8 to 32 positions, all before them known, masks behind."""


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
        return _blocks(batch, mask_id, 1, generator)
    if objective is Objective.BLOCKS:
        size = 2 ** int(torch.randint(2, 6, (), generator=generator))
        return _blocks(batch, mask_id, size, generator)
    if objective is Objective.PREFIX:
        return _prefix(batch, mask_id, generator)
    return _masked(batch, objective, mask_id, generator)


def _masked(
    batch: Batch, objective: Objective, mask_id: int, generator: torch.Generator
) -> Question:
    """Ratios are stratified over the batch's answers: one in each of as many equal intervals."""
    ratio = _stratified(int(batch.answers.max()), generator)[batch.answers - 1]
    answer = batch.answers > 0
    chosen = torch.rand(batch.ids.shape, generator=generator) < ratio
    asked = torch.cat((answer & chosen, answer & ~chosen))
    targets = batch.ids.repeat(2, 1)
    weights = torch.ones(targets.shape)
    if objective is Objective.MASKED_INVERSE:
        weights = _inverse(torch.cat((ratio, 1 - ratio)))
    inputs = torch.where(asked, mask_id, targets)
    return Question(inputs, torch.arange(batch.ids.shape[1]), targets, asked, weights, None)


def _blocks(batch: Batch, mask_id: int, size: int, generator: torch.Generator) -> Question:
    """Several streams: the tokens, each seeing its own block and all before it, and the same
    positions again with masks, each block of them seeing itself and the tokens before it.

    A mask is asked for the token in its place: the form in which masked diffusion asks, so that
    what is learnt carries over. A prompt, each question of a chat, is one block; answers are cut
    into blocks of ``size``. Blocks of one token are the autoregressive objective; of longer ones
    there are two streams, under complementary masks, a mask ratio a block.
    """
    answers = batch.answers
    count, length = batch.ids.shape
    tokens = torch.arange(length)
    places = tokens[(answers > 0).any(0)] if batch.first is None else tokens[batch.first :]
    turns, within = _turns(answers)
    block = (turns | ((answers > 0) & (within % size == 0))).cumsum(1)
    noises = [(answers > 0, torch.ones(count, length))]
    if size > 1:
        ratio = torch.rand(count, length + 1, generator=generator).gather(1, block)
        chosen = torch.rand(count, length, generator=generator) < ratio
        noises = [
            ((answers > 0) & chosen, _inverse(ratio)),
            ((answers > 0) & ~chosen, _inverse(1 - ratio)),
        ]
    positions = torch.cat((tokens, *[places] * len(noises)))
    stream = torch.cat([torch.full_like(places, i + 1) for i in range(len(noises))])
    stream = torch.cat((torch.zeros_like(tokens), stream))
    query, key = block[:, positions, None], block[:, None, positions]
    same = stream[:, None] == stream[None, :]
    visible = ((stream == 0) & (key < query)) | (same & (key == query))
    hidden = [torch.where(masked, mask_id, batch.ids)[:, places] for masked, _ in noises]
    none, unasked = torch.zeros(count, length, dtype=torch.bool), torch.ones(count, length)
    return Question(
        torch.cat((batch.ids, *hidden), dim=1),
        positions,
        batch.ids[:, positions],
        torch.cat((none, *(masked[:, places] for masked, _ in noises)), dim=1),
        torch.cat((unasked, *(weight[:, places] for _, weight in noises)), dim=1),
        visible.unsqueeze(1),
    )


def _prefix(batch: Batch, mask_id: int, generator: torch.Generator) -> Question:
    """Answers as decoding finds them: begun from the left, some of the next positions filled in,
    masks behind. Two cuts an example, half an answer apart.
    """
    numbers = batch.answers - 1
    count, length = int(batch.answers.max()), batch.ids.shape[1]
    _, within = _turns(numbers)
    sizes = torch.bincount(numbers[numbers >= 0], minlength=count)
    share = _stratified(count, generator)
    masks, weights = [], []
    for half in (0.0, 0.5):
        cut = (((share + half) % 1) * sizes).long()
        window = 2 ** torch.randint(3, 6, (count,), generator=generator)
        ratio = torch.rand(count, generator=generator)[numbers]
        ahead = within - cut[numbers]
        behind = ahead >= window[numbers]
        some = (ahead >= 0) & (torch.rand(batch.ids.shape, generator=generator) < ratio)
        masks.append((numbers >= 0) & (behind | some))
        weights.append(torch.where(behind, FAR_WEIGHT, _inverse(ratio)))
    asked, targets = torch.cat(masks), batch.ids.repeat(2, 1)
    inputs = torch.where(asked, mask_id, targets)
    return Question(inputs, torch.arange(length), targets, asked, torch.cat(weights), None)


def _stratified(count: int, generator: torch.Generator) -> Tensor:
    """Numbers ``(count,)`` from [0, 1), one in each of as many equal intervals, in random order."""
    order = torch.randperm(count, generator=generator)
    return (order + torch.rand(count, generator=generator)) / count


def _inverse(ratio: Tensor) -> Tensor:
    """The weight 1/t of a mask ratio, halved, because complementary masks ask for each answer token
    once where the bound's expectation has t.
    """
    return 0.5 / ratio.clamp(min=1e-3)


def _turns(answers: Tensor) -> tuple[Tensor, Tensor]:
    """Where a question or an answer begins behind another, and how far each position lies from the
    begin of its own, both ``(sequences, length)``.
    """
    turns = F.pad(answers[:, 1:] != answers[:, :-1], (1, 0))
    tokens = torch.arange(answers.shape[1])
    return turns, tokens - torch.where(turns, tokens, 0).cummax(1).values


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
