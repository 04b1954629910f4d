"""The training objectives, as questions to the network over batches of sequences of one length.

The masked objective is LLaDA's (arXiv 2502.09992, section 2.3): a mask ratio t ~ U(0, 1) for each
answer, masks on answers only. Every example appears twice, under complementary masks, so that one
batch asks for every answer token exactly once. The autoregressive objective is the warm start: each
answer token is asked for at a mask in its own position, from everything to its left. Two objectives
lie in between. Prefixes are the states that decoding from the left passes through. Continuations
ask as the warm start does, but on a canvas whose masks are seen. All but continuations also ask for
the answers of worked examples, so that a long prompt teaches as much for each row as a short one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

FAR_WEIGHT = 0.3
"""Weight of a mask behind the window of ``Objective.PREFIX``, and of the masks of
``Objective.CONTINUATION`` that are not next."""
TAIL, TAIL_WEIGHT = 8, 1 / 16
"""The number of end tokens that count in full, and the weight of those behind."""


class Objective(StrEnum):
    """Ways to ask for answers and to weight the losses of masked tokens."""

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
    """Token ``ids`` and ``answers``, both ``(sequences, length)``.

    ``answers`` holds the number of the answer that a position belongs to, counted from 1 through
    the batch, and 0 in a prompt. With ``first`` the warm start has a mask at every position from
    there on, so that batches of one length have one shape; without, only where some answer lies.
    """

    ids: Tensor
    answers: Tensor
    first: int | None = None


@dataclass(frozen=True)
class Question:
    """The inputs of a network and the targets of its answers.

    ``inputs``, ``targets`` and ``asked`` are ``(sequences, rows)``, ``positions`` ``(rows,)``.
    ``weights`` ``(sequences, rows)`` scale the losses. ``far`` ``(sequences, rows)`` marks masks
    behind another mask of their answer. ``visible`` ``(sequences, 1, rows, rows)`` limits
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
        """Indices ``(n,)`` of the asked rows, in the rows of all sequences."""
        return self.asked.flatten().nonzero().squeeze(1)


def ask(batch: Batch, objective: Objective, mask_id: int, generator: torch.Generator) -> Question:
    """The question that ``objective`` puts to the network for a batch.

    Long tails of end tokens have little weight. The mean weight of the asked rows stays the same.
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
    """Complementary masks; ratios are stratified, one in each of as many intervals as answers."""
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
    """Two streams: tokens that see all before them, and masks that see the tokens before them.

    The masks stand in the answers' positions, and each is asked for the token in its place. That is
    the form in which masked diffusion asks, so that what is learnt carries over. Each question of a
    chat sees all of itself, as in full attention.
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
    """Answers in the middle of decoding, with two cuts for each, half an answer apart.

    All before a cut is known, and some of the window behind it. The rest are masks.
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
    """Tokens behind a cut in the last answer, each asked for from all before it and masks behind.

    These are the states of decoding from the left, all in one pass. There are three streams: the
    tokens; the masks of the canvas that is known up to the cut; and, behind the cut, a mask in each
    token's own position. The tokens before the cut and the canvas's masks have full attention, as
    in decoding. A token behind the cut sees that canvas, with the tokens up to itself in the places
    of masks. So does the mask that asks for the next token. One thing differs from decoding: masks
    further off have not seen those tokens. The cut is drawn anew for each example, and right behind
    it nothing differs.
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
    """The masks behind another mask of the same answer, true in ``(sequences, length)``."""
    places = torch.arange(asked.shape[1]).expand(asked.shape)
    first = torch.full((int(answers.max()) + 1,), asked.shape[1])
    first.scatter_reduce_(0, answers[asked], places[asked], "amin")
    return asked & (places > first[answers])


def _inverse(ratio: Tensor) -> Tensor:
    """The weight 1/t of a mask ratio, halved.

    Over both complementary masks a token's expected weight is 2, where the likelihood bound has 1.
    """
    return 0.5 / ratio.clamp(min=1e-3)


def _turns(answers: Tensor) -> Tensor:
    """True ``(sequences, length)`` where a question or an answer starts behind another."""
    return F.pad(answers[:, 1:] != answers[:, :-1], (1, 0))


def _places(batch: Batch, asked: Tensor) -> Tensor:
    """Positions ``(n,)`` in the stream of masks: those asked in some sequence, or fixed ones."""
    tokens = torch.arange(batch.ids.shape[1])
    return tokens[asked.any(0)] if batch.first is None else tokens[batch.first :]
