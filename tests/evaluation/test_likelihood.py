"""Likelihoods: the estimates of both families against hand-made sums over full passes."""

from __future__ import annotations

import math

import pytest
import torch

from entropycache import Engine
from entropycache.errors import NonFiniteLogitsError, PromptError
from entropycache.evaluation.likelihood import (
    ESTIMATORS,
    dream_draws,
    framed,
    is_greedy,
    llada_draws,
    log_likelihood,
)
from entropycache.io.tokenizer import Tokenizer
from tests.conftest import FAMILIES

PREFIX, TARGET = [5, 9, 3, 7], [11, 4, 8, 2, 6]


class FramesOnly:
    """As much of a tokenizer as frames need."""

    bos_token_id, eos_token_id = 12, 13

    def convert_ids_to_tokens(self, token_id):
        return "<mask>"


def with_tokenizer(engine: Engine) -> Engine:
    text = engine.tokenizer
    return Engine(
        engine.network,
        engine.family,
        Tokenizer(FramesOnly(), text.mask_id, text.end_ids, text.vocab_size),  # type: ignore[arg-type]
    )


def by_hand(engine: Engine, ids: list[int], start: int, mask: list[int]) -> float:
    """The sum of log p over the masked tokens, from the logits of one full pass."""
    canvas = list(ids)
    for place in mask:
        canvas[start + place] = engine.tokenizer.mask_id
    scores = engine.logits(canvas).double().log_softmax(dim=-1)
    shift = 1 if engine.family.model_type == "Dream" else 0
    return sum(float(scores[start + place - shift, ids[start + place]]) for place in mask)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_estimate_is_the_mean_of_its_draws(engines, family):
    engine = engines(family, "float64")
    found, passes = log_likelihood(engine, PREFIX, TARGET, 12, seed=3, batch_size=5)
    draws = ESTIMATORS[engine.family.model_type].draws(
        len(TARGET), 12, torch.Generator().manual_seed(3)
    )
    total = 0.0
    for mask, ratio in zip(draws.masks, draws.ratios, strict=True):
        places = mask.nonzero()[:, 0].tolist()
        total += by_hand(engine, PREFIX + TARGET, len(PREFIX), places) / float(ratio)
    assert found == pytest.approx(total / 12, rel=1e-9)
    assert passes == len({tuple(m) for m in draws.masks.tolist() if any(m)})


def test_many_draws_come_to_the_expectation(engines):
    engine, target = engines("llada", "float64"), TARGET[:2]
    ids = PREFIX + target
    one = (by_hand(engine, ids, 4, [0]) + by_hand(engine, ids, 4, [1])) / 2
    expected = (2 * one + by_hand(engine, ids, 4, [0, 1])) / 2
    found, passes = log_likelihood(engine, PREFIX, target, 20_000, seed=0, batch_size=8)
    assert found == pytest.approx(expected, rel=0.02)
    assert passes == 3, "equal masks are computed once"


def test_one_token_takes_one_pass_and_is_exact_on_llada(engines):
    engine = engines("llada", "float64")
    found, passes = log_likelihood(engine, PREFIX, [11], 128, seed=1, batch_size=8)
    assert passes == 1
    assert found == pytest.approx(by_hand(engine, [*PREFIX, 11], 4, [0]), rel=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_batch_changes_nothing_and_the_seed_does(engines, family):
    engine = engines(family, "float64")
    found = {
        seed: [log_likelihood(engine, PREFIX, TARGET, 8, seed, size)[0] for size in (1, 3, 8)]
        for seed in (0, 1)
    }
    for values in found.values():
        assert values == pytest.approx([values[0]] * 3, rel=1e-9)
    assert found[0][0] != found[1][0]


def test_llada_spreads_the_numbers_of_masks_evenly():
    draws = llada_draws(4, 12, torch.Generator().manual_seed(5))
    counts = draws.masks.sum(dim=1)
    assert sorted(counts.tolist()) == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    assert torch.equal(draws.ratios, counts / 4)


def test_dream_spreads_the_ratios_evenly_and_masks_by_them():
    draws = dream_draws(400, 10, torch.Generator().manual_seed(5))
    ordered = draws.ratios.sort().values
    assert ordered[0] >= 0.001 and ordered[-1] <= 1
    assert ordered.diff().tolist() == pytest.approx([0.0999] * 9, abs=1e-5)
    assert (draws.masks.float().mean(dim=1) - draws.ratios).abs().max() < 0.1


def test_dream_stands_between_begin_and_end_tokens_that_are_never_masked(engines):
    engine = with_tokenizer(engines("dream", "float64"))
    assert framed(engine, PREFIX, TARGET) == ([12, *PREFIX], [13])
    assert framed(engine, [12, 5], TARGET) == ([12, 5], [13])
    assert framed(with_tokenizer(engines("llada", "float64")), PREFIX, TARGET) == (PREFIX, [])
    found, _ = log_likelihood(engine, PREFIX, [11], 64, seed=2, batch_size=8)
    draws = dream_draws(1, 64, torch.Generator().manual_seed(2))
    once = by_hand(engine, [12, *PREFIX, 11, 13], 5, [0])
    weight = sum(1 / float(r) for m, r in zip(draws.masks, draws.ratios, strict=True) if m[0])
    assert found == pytest.approx(once * weight / 64, rel=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_is_what_plain_decoding_gives(engines, family):
    engine = engines(family, "float64")
    done = engine.generate(
        PREFIX, policy="none", gen_length=5, window=5, tokens_per_step=1, early_stop=False
    )
    assert is_greedy(engine, PREFIX, done.token_ids)
    other = [*done.token_ids[:-1], (done.token_ids[-1] + 1) % 150]
    assert not is_greedy(engine, PREFIX, other)


def test_an_empty_target_costs_nothing_and_one_too_long_is_refused(engines):
    engine = engines("llada")
    assert log_likelihood(engine, PREFIX, [], 4, 0, 8) == (0.0, 0)
    longest = engine.network.config.max_position_embeddings
    with pytest.raises(PromptError, match=f"this model has {longest}"):
        log_likelihood(engine, PREFIX, [1] * longest, 4, 0, 8)


def test_a_network_gone_wrong_is_not_a_likelihood(engines, monkeypatch):
    engine = engines("llada")
    monkeypatch.setattr(
        type(engine.network), "logits", lambda self, x: torch.full((len(x), 160), math.nan)
    )
    with pytest.raises(NonFiniteLogitsError):
        log_likelihood(engine, PREFIX, TARGET, 4, 0, 8)
