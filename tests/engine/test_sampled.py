"""The probability that is reported: which distribution it comes from, under every kind of cut."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from entropycache.config.sampling import Confidence, Sampling
from entropycache.engine import scoring
from entropycache.engine.scoring import Sampler, draw, score

MASK = 3
P = np.array([0.5, 0.3, 0.15, 0.0, 0.05])
"""Probabilities at temperature 1; the mask token has none."""
LOGITS = torch.tensor([[0.5, 0.3, 0.15, 1.0, 0.05]]).log()


def scored(sampling: Sampling, logits: torch.Tensor = LOGITS):
    sampler = Sampler(sampling)
    (found,), _ = score(
        lambda rows: rows.clone(), logits, [len(logits)], [sampler], MASK, logits.shape[1]
    )
    return found


@pytest.mark.parametrize("cut", [{"top_p": 0.4}, {"top_k": 1}, {"top_p": 0.6, "top_k": 3}])
@pytest.mark.parametrize(
    ("confidence", "expected"),
    [
        (Confidence.PROBABILITY, 0.5),
        (Confidence.MARGIN, 0.2),
        (Confidence.ENTROPY, float((P[P > 0] * np.log(P[P > 0])).sum())),
    ],
)
def test_without_temperature_a_cut_changes_neither_token_nor_confidence(cut, confidence, expected):
    found = scored(Sampling(confidence=confidence, **cut))
    assert found.tokens.tolist() == [0]
    assert found.confidence == pytest.approx([expected], abs=1e-6)


@pytest.mark.parametrize("cut", [{}, {"top_p": 0.4}, {"top_k": 2}])
def test_with_temperature_the_confidence_is_still_that_at_temperature_1(cut):
    found = scored(Sampling(temperature=0.5, seed=2, **cut), LOGITS.expand(200, -1))
    assert found.confidence == pytest.approx(P[found.tokens], abs=1e-6)
    assert MASK not in found.tokens


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"top_k": 2}, 0.5 / 0.8),
        ({"top_p": 0.9}, 0.5 / 0.95),
        ({"top_p": 0.4}, 1.0),
        ({}, 0.5),
        ({"temperature": 0.5, "top_k": 1}, 1.0),
    ],
)
def test_a_tempered_confidence_is_that_of_what_is_drawn_from(options, expected):
    found = scored(Sampling(tempered=True, **options))
    assert found.tokens.tolist() == [0]
    assert found.confidence == pytest.approx([expected], abs=1e-6)


def test_a_temperature_sharpens_the_tempered_confidence():
    found = scored(Sampling(tempered=True, temperature=0.5, seed=5), LOGITS.expand(300, -1))
    squared = P**2 / (P**2).sum()
    assert found.confidence == pytest.approx(squared[found.tokens], abs=1e-6)
    assert set(found.tokens.tolist()) >= {0, 1, 2}


def test_what_is_drawn_does_not_depend_on_the_chunks(monkeypatch):
    logits = torch.randn(11, 5, generator=torch.Generator().manual_seed(3))
    hot = Sampling(temperature=2.0, seed=7)
    whole = scored(hot, logits)
    assert len(set(whole.tokens.tolist())) > 2
    monkeypatch.setattr(scoring, "CHUNK_ENTRIES", 4 * 5)
    chunked = scored(hot, logits)
    assert chunked.tokens.tolist() == whole.tokens.tolist()
    np.testing.assert_allclose(chunked.confidence, whole.confidence, rtol=1e-6)


def test_entropies_are_those_of_the_requests_own_rows():
    rows = torch.stack([LOGITS[0], torch.zeros(5), torch.tensor([0.0, -80, -80, 0, -80])])
    samplers = [Sampler(Sampling()) for _ in range(3)]
    scores, _ = score(lambda x: x.clone(), rows, [1, 1, 1], samplers, MASK, 5)
    found = [float(s.entropy(np.array([0]))[0]) for s in scores]
    positive = P[P > 0]
    expected = [-(positive * np.log(positive)).sum(), np.log(4), 0.0]
    assert found == pytest.approx(expected, abs=1e-6)


def test_half_precision_logits_are_scored_in_float32():
    logits = (torch.randn(4, 400, generator=torch.Generator().manual_seed(0)) * 3).bfloat16()
    exact = logits.double()
    exact[:, MASK] = -torch.inf
    found = scored(Sampling(), logits)
    expected = exact.softmax(-1).max(-1).values.numpy()
    np.testing.assert_allclose(found.confidence, expected, rtol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_entropies_of_nearly_certain_rows_are_never_below_nothing(seed):
    """Rounding alone would take some of these below 0."""
    logits = torch.randn(64, 50, generator=torch.Generator().manual_seed(seed)) * 30
    logits[:, 5] += 16
    found = scored(Sampling(), logits).entropy(np.arange(64))
    exact = logits.double()
    exact[:, MASK] = -torch.inf
    expected = torch.special.entr(exact.softmax(-1)).sum(-1).numpy()
    assert found.min() >= 0
    np.testing.assert_allclose(found, expected, atol=3e-5)


def test_a_uniform_that_rounding_brought_to_1_picks_the_last_token_of_any_probability():
    p = torch.tensor([[0.25, 0.75, 0.0, 0.0]], dtype=torch.float64)
    assert draw(p, torch.ones(1, dtype=torch.float64)).tolist() == [1]
