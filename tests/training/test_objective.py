"""Objectives: what is masked, asked for and seen, and with which weight it counts."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from entropycache.models.full_pass import hidden_states
from entropycache.models.random_init import random_network
from entropycache.training.objective import (
    FAR_WEIGHT,
    TAIL,
    TAIL_WEIGHT,
    Batch,
    Objective,
    ask,
)
from tests.training.tools import MASK, SHAPE, some_batch


@pytest.mark.parametrize("objective", [Objective.MASKED, Objective.MASKED_INVERSE])
def test_complementary_masks_ask_for_every_answer_token_once_and_never_for_the_prompt(objective):
    batch = some_batch()
    question = ask(batch, objective, MASK, torch.Generator().manual_seed(0))
    first, second = question.asked.chunk(2)
    assert torch.equal(first ^ second, batch.answers > 0) and not (first & second).any()
    assert torch.equal(question.inputs == MASK, question.asked)
    assert torch.equal(question.targets[question.asked], batch.ids.repeat(2, 1)[question.asked])


def test_the_inverse_weight_is_one_over_the_ratio():
    batch = some_batch(4, 2048)
    batch.answers[:, 12:1000] = batch.answers[:, 12:13]  # long enough for its ratio to be counted
    batch.answers[:, 1000:1040] = 0
    question = ask(batch, Objective.MASKED_INVERSE, MASK, torch.Generator().manual_seed(0))
    answers = batch.answers.repeat(2, 1)
    drawn = set()
    for half in (slice(0, 4), slice(4, 8)):
        for number in range(1, 9):
            inside = answers[half] == number
            ratio = question.asked[half][inside].float().mean()
            weight = question.weights[half][inside].unique()
            torch.testing.assert_close(0.5 / weight, ratio[None], rtol=0, atol=0.04)
            drawn.add(round(ratio.item(), 6))
    assert len(drawn) == 16, "each answer has a ratio of its own"


@pytest.mark.parametrize("first", [None, 8])
def test_no_answer_token_sees_itself_or_what_is_right_of_it_in_the_warm_start(first):
    """Changing the token at a position changes no prediction at or before it, and some after it."""
    network = random_network(SHAPE, 0)
    batch = some_batch(1)
    start = int((batch.answers == 2).nonzero()[0, 1])

    def predictions(changed: int | None):
        ids = batch.ids.clone()
        if changed is not None:
            ids[0, changed] = (ids[0, changed] + 7) % 2000 + 10
        asked = Batch(ids, batch.answers, first)
        question = ask(asked, Objective.AUTOREGRESSIVE, MASK, torch.Generator())
        hidden = hidden_states(network, question.inputs, question.positions, question.visible)
        assert question.visible is not None
        assert len(question.positions) == 64 + (56 if first else int((batch.answers > 0).sum()))
        assert torch.equal(question.targets, ids[:, question.positions])
        return hidden[question.asked.flatten()], question.positions[question.asked[0]]

    original, positions = predictions(None)
    assert positions.tolist() == [*range(12, 20), *range(start, 64)]
    for changed in (12, 19, start, 55, 63):
        other, _ = predictions(changed)
        moved = (other - original).abs().amax(1) > 1e-6
        assert not moved[positions <= changed].any()
        assert moved[positions > changed].all()
    other, _ = predictions(3)
    assert ((other - original).abs().amax(1) > 1e-6).all(), "the first question is seen by all"
    other, _ = predictions(start - 1)
    moved = (other - original).abs().amax(1) > 1e-6
    assert torch.equal(moved, positions >= start), "the second question, by its answer alone"


def test_each_question_of_a_chat_sees_itself_whole_in_the_warm_start():
    batch = some_batch(1)
    question = ask(batch, Objective.AUTOREGRESSIVE, MASK, torch.Generator())
    assert question.visible is not None
    start = int((batch.answers == 2).nonzero()[0, 1])
    seen = question.visible[0, 0, :64, :64]
    assert torch.equal(seen[3].nonzero().squeeze(1), torch.arange(12))
    assert torch.equal(seen[15].nonzero().squeeze(1), torch.arange(16))
    assert torch.equal(seen[25].nonzero().squeeze(1), torch.arange(start))
    assert torch.equal(seen[start + 2].nonzero().squeeze(1), torch.arange(start + 3))
    assert not question.visible[0, 0, :64, 64:].any(), "no token sees a mask"


def continued(batch: Batch, seed: int, count: int):
    """A continuation, and the cut of each of its sequences: the first position asked for."""
    question = ask(batch, Objective.CONTINUATION, MASK, torch.Generator().manual_seed(seed))
    places = question.positions.expand(count, -1)
    cuts = torch.where(question.asked, places, 10_000).amin(1).tolist()
    masks = (len(question.positions) - batch.ids.shape[1]) // 2
    return question, cuts, masks


@pytest.mark.parametrize(("seed", "first"), [(0, None), (1, None), (2, 8), (3, 8)])
def test_the_masks_of_a_continuation_are_those_of_the_canvas_known_up_to_the_cut(seed, first):
    network = random_network(SHAPE, 0)
    batch = replace(some_batch(), first=first)
    question, cuts, masks = continued(batch, seed, 6)
    hidden = hidden_states(network, question.inputs, question.positions, question.visible)
    hidden = hidden.view(6, -1, SHAPE.hidden_size)
    places = question.positions[64 : 64 + masks]
    for row, cut in enumerate(cuts):
        assert batch.answers[row, cut] == 2 * row + 2, "the last answer alone is asked for"
        canvas = batch.ids[row : row + 1].clone()
        canvas[:, cut:] = MASK
        expected = hidden_states(network, canvas, torch.arange(64), None)
        found = hidden[row, 64 : 64 + masks][places >= cut]
        torch.testing.assert_close(found, expected[cut:], atol=2e-5, rtol=1e-4)
        torch.testing.assert_close(hidden[row, :cut], expected[:cut], atol=2e-5, rtol=1e-4)
    assert len(set(cuts)) > 3


@pytest.mark.parametrize("first", [None, 8])
def test_a_continuation_asks_for_each_token_from_all_before_it_and_masks_behind(first):
    """Changing the token at a position changes no prediction at or before it, and every later one
    of the stream that has seen it.
    """
    network = random_network(SHAPE, 0)
    batch = replace(some_batch(1), first=first)
    question, (cut,), masks = continued(batch, 4, 1)
    assert 33 < cut < 62
    asked, places = question.asked[0], question.positions
    canvas, ahead = slice(64, 64 + masks), slice(64 + masks, None)
    assert places[canvas][asked[canvas]].tolist() == list(range(cut, 64))
    assert places[ahead][asked[ahead]].tolist() == list(range(cut + 1, 64))
    assert not asked[:64].any() and (question.inputs[0, 64:] == MASK).all()
    assert torch.equal(question.targets[0], batch.ids[0, places])
    near = (places == cut) | (torch.arange(len(places)) >= 64 + masks)
    assert torch.equal(question.far[0][asked], ~near[asked])
    assert torch.equal(question.weights[0][asked], torch.where(near, 1.0, FAR_WEIGHT)[asked])
    for row in range(64 + masks, len(places)):
        if asked[row]:
            seen = question.visible[0, 0, row]
            assert seen[:64].nonzero().squeeze(1).tolist() == list(range(places[row]))
            assert places[canvas][seen[canvas]].tolist() == list(range(places[row] + 1, 64))
            assert places[ahead][seen[ahead]].tolist() == [places[row]], "itself"

    def predictions(ids: torch.Tensor):
        other = ask(
            replace(batch, ids=ids),
            Objective.CONTINUATION,
            MASK,
            torch.Generator().manual_seed(4),
        )
        return hidden_states(network, other.inputs, other.positions, other.visible)

    original = predictions(batch.ids)
    for changed in (cut, (cut + 64) // 2, 62):
        ids = batch.ids.clone()
        ids[0, changed] = (ids[0, changed] + 7) % 2000 + 10
        moved = (predictions(ids) - original).abs().amax(1) > 1e-6
        assert not moved[canvas][asked[canvas]].any()
        assert torch.equal(moved[ahead][asked[ahead]], places[ahead][asked[ahead]] > changed)


@pytest.mark.parametrize("objective", [Objective.MASKED_INVERSE, Objective.PREFIX])
def test_masks_behind_another_of_their_answer_are_far(objective):
    batch = some_batch()
    question = ask(batch, objective, MASK, torch.Generator().manual_seed(0))
    answers = batch.answers.repeat(2, 1)
    for row in range(12):
        for number in answers[row].unique().tolist():
            asked = (question.asked[row] & (answers[row] == number)).nonzero().squeeze(1).tolist()
            assert question.far[row][answers[row] == number].nonzero().numel() == len(asked[1:])
            assert question.far[row, asked[1:]].all()
    assert not ask(batch, Objective.AUTOREGRESSIVE, MASK, torch.Generator()).far.any()


def test_prefixes_are_known_up_to_a_cut_masked_in_part_and_then_whole():
    batch = some_batch(4, 512)
    question = ask(batch, Objective.PREFIX, MASK, torch.Generator().manual_seed(0))
    assert question.visible is None and not question.asked[(batch.answers == 0).repeat(2, 1)].any()
    assert torch.equal(question.inputs == MASK, question.asked)
    cuts = []
    for half in (slice(0, 4), slice(4, 8)):
        for number in range(1, 9):
            inside = batch.answers == number
            asked = question.asked[half][inside]
            weights = question.weights[half][inside]
            ahead = int((weights != FAR_WEIGHT).sum())
            assert asked[ahead:].all() and (weights[ahead:] == FAR_WEIGHT).all()
            known = int(asked.nonzero()[0]) if asked.any() else len(asked)
            assert ahead - known <= 32, "masks in part within 32 positions at most"
            cuts.append(known / len(asked))
    assert min(cuts) < 0.2 and max(cuts) > 0.8


@pytest.mark.parametrize("objective", list(Objective))
def test_long_tails_count_little_and_do_not_lessen_what_the_rest_counts(objective):
    varied = some_batch(2, 512)
    ended = replace(varied, ids=varied.ids.clone())
    ended.ids[:, 80:] = 3
    plain, tailed = (
        ask(batch, objective, MASK, torch.Generator().manual_seed(3)) for batch in (varied, ended)
    )
    counts = torch.where(plain.positions < 80 + TAIL, 1.0, TAIL_WEIGHT).expand(plain.asked.shape)
    assert torch.equal(plain.asked, tailed.asked)
    share = counts[plain.asked].mean()
    assert share < 0.4, "most of what is asked for is tail"
    torch.testing.assert_close(tailed.weights, plain.weights * counts / share)
