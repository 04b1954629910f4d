"""Logits to scores: entropy, confidence, sampling, suppression of the mask, non-finite logits."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from entropycache.config.sampling import Confidence, Sampling
from entropycache.engine.scoring import (
    Chunk,
    Sampler,
    _dots_at_once,
    _dots_by_row,
    draw,
    score,
    truncated,
)

VOCAB, MASK = 50, 7


def random_logits(rows: int = 6, scale: float = 4.0) -> torch.Tensor:
    return torch.randn(rows, VOCAB, generator=torch.Generator().manual_seed(1)) * scale


def scores_of(logits: torch.Tensor, *samplings: Sampling, counts=None):
    counts = counts or [len(logits)]
    samplers = [Sampler(s) for s in samplings or (Sampling(),)]
    return score(lambda rows: rows.clone(), logits, counts, samplers, MASK, VOCAB)[0]


def without_mask(logits: torch.Tensor) -> torch.Tensor:
    kept = logits.double().clone()
    kept[:, MASK] = -torch.inf
    return kept.softmax(-1)


def test_tokens_and_confidence_are_those_of_the_softmax_without_the_mask_token():
    logits = random_logits()
    logits[:, MASK] = 99.0
    (found,) = scores_of(logits)
    p = without_mask(logits)
    assert found.tokens.tolist() == p.argmax(-1).tolist()
    np.testing.assert_allclose(found.confidence, p.max(-1).values.numpy(), rtol=1e-5)


@pytest.mark.parametrize("scale", [0.0, 1.0, 8.0, 60.0])
def test_entropy_is_the_shannon_entropy_in_nats(scale):
    logits = random_logits(scale=scale)
    (found,) = scores_of(logits)
    expected = torch.special.entr(without_mask(logits)).sum(-1).numpy()
    chosen = np.array([4, 0, 2])
    np.testing.assert_allclose(found.entropy(chosen), expected[chosen], atol=3e-5, rtol=1e-5)
    assert (found.entropy(chosen) >= 0).all()
    assert found.entropy(np.array([], np.int64)).shape == (0,)


def test_entropy_of_a_certain_row_is_zero_and_never_nan():
    logits = torch.full((1, VOCAB), -3e38)
    logits[0, 3] = 0.0
    (found,) = scores_of(logits)
    assert found.entropy(np.array([0])).tolist() == [0.0]
    assert found.confidence.tolist() == [1.0]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_non_finite_logits_are_found_also_at_the_mask_token(bad):
    for column in (0, MASK, VOCAB - 1):
        logits = random_logits()
        logits[3, column] = bad
        first, second = scores_of(logits, Sampling(), Sampling(), counts=[3, 3])
        assert first is not None, "rows of another request are not touched"
        assert second is None


def test_margin_and_entropy_confidences():
    logits = random_logits()
    p = without_mask(logits)
    first, second = p.topk(2).values.unbind(-1)
    (margin,) = scores_of(logits, Sampling(confidence=Confidence.MARGIN))
    np.testing.assert_allclose(margin.confidence, (first - second).numpy(), atol=1e-6)
    (entropy,) = scores_of(logits, Sampling(confidence=Confidence.ENTROPY))
    expected = -torch.special.entr(p).sum(-1)
    np.testing.assert_allclose(entropy.confidence, expected.numpy(), atol=1e-5)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_sampling_follows_the_softmax_frequencies(temperature):
    """Chi-square over a small vocabulary; the limit is the 99.99 % quantile for 7 degrees."""
    logits = torch.tensor([[1.0, 0.0, -1.0, 2.0, 0.5, -2.0, 1.5, 0.2]])
    draws = 20_000
    sampling = Sampling(temperature=temperature)
    uniforms = torch.rand(draws, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    tokens = draw(truncated(logits.expand(draws, -1), sampling), uniforms)
    expected = (logits[0] / temperature).softmax(-1) * draws
    observed = torch.bincount(tokens, minlength=8)
    assert ((observed - expected) ** 2 / expected).sum().item() < 29.9


def test_top_k_and_top_p_cut_the_tail_and_keep_the_token_that_crosses():
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log().expand(4000, -1)
    uniforms = torch.rand(4000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def kinds(**options) -> set[int]:
        cut = truncated(logits, Sampling(temperature=1.0, **options))
        return set(draw(cut, uniforms).tolist())

    assert kinds(top_k=2) == {0, 1}
    assert kinds(top_p=0.6) == {0, 1}
    assert kinds(top_p=0.5) == {0}
    assert kinds(top_p=0.81, top_k=2) == {0, 1}
    assert kinds() == {0, 1, 2, 3}


def test_extreme_uniforms_never_pick_a_token_of_no_probability():
    logits = torch.full((2, 4), -3e38)
    logits[:, 2] = 0.0
    extremes = torch.tensor([0.0, 1 - 2**-53], dtype=torch.float64)
    picked = draw(truncated(logits, Sampling(temperature=1.0)), extremes)
    assert picked.tolist() == [2, 2]


def test_the_mask_token_is_never_sampled():
    logits = torch.zeros(500, VOCAB)
    logits[:, MASK] = 50.0
    (found,) = scores_of(logits, Sampling(temperature=5.0, seed=1))
    assert MASK not in found.tokens.tolist()
    assert len(set(found.tokens.tolist())) > 40


def test_seeds_decide_and_company_in_the_batch_does_not():
    logits = random_logits(8, 1.0)
    hot = Sampling(temperature=1.5, seed=4)
    (alone,) = scores_of(logits[2:6], hot)
    _, inside, _ = scores_of(logits, Sampling(), hot, Sampling(temperature=1), counts=[2, 4, 2])
    assert inside.tokens.tolist() == alone.tokens.tolist()
    others = [
        scores_of(logits, Sampling(temperature=1.5, seed=s))[0].tokens.tolist() for s in range(9)
    ]
    assert len({tuple(tokens) for tokens in others}) > 1


def test_a_chunk_suppresses_with_a_finite_number():
    chunk = Chunk(random_logits(), MASK)
    assert chunk.logits.isfinite().all()
    assert chunk.probabilities[:, MASK].eq(0).all()


@pytest.mark.parametrize("dots", [_dots_by_row, _dots_at_once])
def test_each_kernel_gives_the_mean_logit_of_the_rows_that_are_asked_for(dots):
    """A CPU's and a GPU's: p·l of rows in any order, by numbers done by hand."""
    p = torch.tensor([[0.5, 0.5], [1.0, 0.0], [0.25, 0.75]])
    logits = torch.tensor([[2.0, 4.0], [-3.0, 9.0], [8.0, -4.0]])
    assert dots(p, logits, torch.tensor([2, 0, 1])).tolist() == [-1.0, 3.0, -3.0]
    assert dots(p, logits, torch.tensor([], dtype=torch.int64)).shape == (0,)
