"""What a network in training is asked for, over batches whose sequences all have one length.

The masked objective is LLaDA's (arXiv 2502.09992, section 2.3): a mask ratio t ~ U(0, 1) for each
answer, masks on answers only. Every example appears twice, under complementary masks, so that one
batch asks for every answer token exactly once. The autoregressive objective is the warm start: each
answer token is asked for at a mask token in its own position, from everything to its left. Between
the two lie prefixes, the states that decoding from the left passes through, and continuations,
which ask as the warm start does but on a canvas whose masks are seen. The answers of worked
examples in front of a question are asked for as the last one is, but by continuations, so that a
long prompt teaches as much a row as a short one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

FAR_WEIGHT = 0.3
"""Of a mask behind the positions that ``Objective.PREFIX`` is about, and of the masks of
``Objective.CONTINUATION`` that are not next."""
TAIL, TAIL_WEIGHT = 8, 1 / 16
"""How many end tokens count in full, and the weight of those behind."""


class Objective(StrEnum):
    """How answers are asked for, and how the losses of masked tokens are weighted."""

    AUTOREGRESSIVE = "autoregressive"
    MASKED = "masked"
    """Masked diffusion, all masked tokens alike."""
    MASKED_INVERSE = "masked-inverse"
    """Masked diffusion, weighted by 1/t as in the likelihood bound."""
    PREFIX = "prefix"
    """Masked diffusion within the next 8 to 32 positions, all before them known, masks behind."""
    CONTINUATION = "continuation"
    """The last answer from some position on, one token after another, with masks behind."""


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
    ``weights`` ``(sequences, rows)`` scale the losses. ``far`` ``(sequences, rows)`` are the masks
    that stand behind another of their answer. ``visible`` ``(sequences, 1, rows, rows)`` limits
    attention; ``None`` is full attention.
    """

    inputs: Tensor
    positions: Tensor
    targets: Tensor
    asked: Tensor
    weights: Tensor
    far: Tensor
    visible: Tensor | None

    @cached_property
    def rows(self) -> Tensor:
        """Indices ``(n,)`` of the asked rows of all sequences."""
        return self.asked.flatten().nonzero().squeeze(1)


def ask(batch: Batch, objective: Objective, mask_id: int, generator: torch.Generator) -> Question:
    """The question that ``objective`` puts to the network for a batch.

    Long tails of end tokens count little, and do not lessen what the rest counts.
    """
    if objective is Objective.AUTOREGRESSIVE:
        question = _autoregressive(batch, mask_id)
    elif objective is Objective.PREFIX:
        question = _prefix(batch, mask_id, generator)
    elif objective is Objective.CONTINUATION:
        question = _continuation(batch, mask_id, generator)
    else:
        question = _masked(batch, objective, mask_id, generator)
    same = (batch.ids == batch.ids[:, -1:]).flip(1).cumprod(1).flip(1)
    counts = torch.where(same.cumsum(1) > TAIL, TAIL_WEIGHT, 1.0)[:, question.positions]
    counts = counts.repeat(len(question.inputs) // len(counts), 1)
    counts /= counts[question.asked].mean()
    return replace(question, weights=question.weights * counts)


def _masked(
    batch: Batch, objective: Objective, mask_id: int, generator: torch.Generator
) -> Question:
    """Ratios are stratified over the batch's answers: one in each of as many equal intervals."""
    ratio = _stratified(int(batch.answers.max()), generator)[batch.answers - 1]
    answer = batch.answers > 0
    chosen = torch.rand(batch.ids.shape, generator=generator) < ratio
    halves = [answer & chosen, answer & ~chosen]
    asked = torch.cat(halves)
    far = torch.cat([_far(half, batch.answers) for half in halves])
    targets = batch.ids.repeat(2, 1)
    weights = torch.ones(targets.shape)
    if objective is Objective.MASKED_INVERSE:
        weights = _inverse(torch.cat((ratio, 1 - ratio)))
    inputs = torch.where(asked, mask_id, targets)
    tokens = torch.arange(batch.ids.shape[1])
    return Question(inputs, tokens, targets, asked, weights, far, None)


def _autoregressive(batch: Batch, mask_id: int) -> Question:
    """Two streams: the tokens, each seeing itself and all before it, and the answers' positions
    again with masks, each seeing itself and the tokens before it.

    A mask is asked for the token in its place: the form in which masked diffusion asks, so that
    what is learnt carries over. A prompt, each question of a chat, sees all of itself.
    """
    answers = batch.answers
    tokens = torch.arange(batch.ids.shape[1])
    masked = answers > 0
    places = _places(batch, masked)
    block = (_turns(answers) | masked).cumsum(1)
    positions = torch.cat((tokens, places))
    stream = torch.cat((torch.zeros_like(tokens), torch.ones_like(places)))
    query, key = block[:, positions, None], block[:, None, positions]
    same = stream[:, None] == stream[None, :]
    visible = ((stream == 0) & (key < query)) | (same & (key == query))
    hidden = torch.where(masked, mask_id, batch.ids)[:, places]
    asked = torch.cat((torch.zeros_like(masked), masked[:, places]), dim=1)
    return Question(
        torch.cat((batch.ids, hidden), dim=1),
        positions,
        batch.ids[:, positions],
        asked,
        torch.ones(asked.shape),
        torch.zeros_like(asked),
        visible.unsqueeze(1),
    )


def _prefix(batch: Batch, mask_id: int, generator: torch.Generator) -> Question:
    """Answers as decoding finds them: begun from the left, some of the next positions filled in,
    masks behind. Two cuts an example, half an answer apart.
    """
    numbers = batch.answers - 1
    count, length = int(batch.answers.max()), batch.ids.shape[1]
    tokens = torch.arange(length)
    within = tokens - torch.where(_turns(numbers), tokens, 0).cummax(1).values
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
    far = torch.cat([_far(half, batch.answers) for half in masks])
    inputs = torch.where(asked, mask_id, targets)
    return Question(inputs, tokens, targets, asked, torch.cat(weights), far, None)


def _continuation(batch: Batch, mask_id: int, generator: torch.Generator) -> Question:
    """Each token of the last answer behind a cut is asked for from all before it, with masks behind
    it: the states of decoding from the left, all in one pass.

    Three streams: the tokens; the masks of the canvas that is known as far as the cut; and, behind
    the cut, a mask in each token's own position. The canvas is full attention among the tokens
    before the cut and its masks, as in decoding. A token behind the cut sees that canvas with the
    tokens as far as itself in the places of masks, and so does the mask that asks for the one after
    it. Only that the masks further off have not seen those tokens is not as decoding has it, and a
    cut anew for each example makes it exact for some position of each.
    """
    length = batch.ids.shape[1]
    tokens = torch.arange(length)
    last = batch.answers == batch.answers.amax(1, keepdim=True)
    places = _places(batch, last)
    share = _stratified(len(batch.ids), generator) ** 2
    sizes = last.sum(1)
    cut = (length - sizes + (share * sizes).long()).unsqueeze(1)
    positions = torch.cat((tokens, places, places))
    stream = torch.repeat_interleave(
        torch.arange(3), torch.tensor((length, len(places), len(places)))
    )
    behind = positions >= cut
    token, blank, ahead = stream == 0, stream == 1, stream == 2
    query, key = positions[:, None], positions[None, :]
    known = token & ~behind
    later = blank[:, None] | (key > query)
    earlier = (token[:, None] & (key <= query)) | (ahead[:, None] & (key < query))
    visible = known[:, None, :] | ((blank & behind)[:, None, :] & later) | (token & earlier)
    visible |= torch.eye(len(positions), dtype=torch.bool)
    masks = torch.full((len(batch.ids), len(places)), mask_id)
    near = (positions == cut) | ahead
    return Question(
        torch.cat((batch.ids, masks, masks), dim=1),
        positions,
        batch.ids[:, positions],
        (blank & behind) | (ahead & (positions > cut)),
        torch.where(near, 1.0, FAR_WEIGHT),
        blank & (positions > cut),
        visible.unsqueeze(1),
    )


def _stratified(count: int, generator: torch.Generator) -> Tensor:
    """Numbers ``(count,)`` from [0, 1), one in each of as many equal intervals, in random order."""
    order = torch.randperm(count, generator=generator)
    return (order + torch.rand(count, generator=generator)) / count


def _far(asked: Tensor, answers: Tensor) -> Tensor:
    """The masks ``(sequences, length)`` that stand behind another of the same answer."""
    places = torch.arange(asked.shape[1]).expand(asked.shape)
    first = torch.full((int(answers.max()) + 1,), asked.shape[1])
    first.scatter_reduce_(0, answers[asked], places[asked], "amin")
    return asked & (places > first[answers])


def _inverse(ratio: Tensor) -> Tensor:
    """The weight 1/t of a mask ratio, halved, because complementary masks ask for each answer token
    once where the bound's expectation has t.
    """
    return 0.5 / ratio.clamp(min=1e-3)


def _turns(answers: Tensor) -> Tensor:
    """Where a question or an answer begins behind another, ``(sequences, length)``."""
    return F.pad(answers[:, 1:] != answers[:, :-1], (1, 0))


def _places(batch: Batch, asked: Tensor) -> Tensor:
    """Positions ``(n,)`` that have a mask of their own in some sequence."""
    tokens = torch.arange(batch.ids.shape[1])
    return tokens[asked.any(0)] if batch.first is None else tokens[batch.first :]
