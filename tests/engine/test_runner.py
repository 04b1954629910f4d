"""Passes: what is computed, what is read from the store, and what memory they take."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from entropycache.config.generation import Sampling
from entropycache.core.sequence import Sequence
from entropycache.core.steps import Plan, Reason
from entropycache.engine.loop import decode
from entropycache.engine.request import Request
from entropycache.engine.scoring import Sampler
from entropycache.engine.stopping import StopCriteria
from entropycache.models.attention import attention
from entropycache.policies import EntropyCache, NoCache
from entropycache.strategies import ByConfidence, Sliding, Strategy
from tests.conftest import FAMILIES


class Idle:
    """Commits nothing on given steps, then one token a step."""

    def __init__(self, *steps: int) -> None:
        self.steps = steps

    def count(self, confidence, sequence, window) -> int:
        return 0 if sequence.steps in self.steps else 1


def request(engine, policy, rule, prompt=(4, 5, 6), masks=12, width=4) -> Request:
    canvas = np.array([*prompt, *[engine.tokenizer.mask_id] * masks])
    strategy = Strategy(Sliding(width), ByConfidence(), rule)
    sequence = Sequence(canvas, engine.tokenizer.mask_id, len(prompt))
    stopping = StopCriteria(engine.tokenizer, early=False)
    return Request(0, sequence, policy, strategy, Sampler(Sampling()), stopping)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_partial_pass_on_an_unchanged_canvas_gives_what_the_full_pass_gave(engines, family):
    """Nothing was committed, so whatever is read from the store must be as good as recomputed."""
    engine = engines(family, "float64")
    steps = list(decode([request(engine, EntropyCache(tau=9.0), Idle(0))], engine.runner))
    assert steps[0].full and not len(steps[0].commit.positions)
    assert steps[1].plan.reason is Reason.PARTIAL
    assert len(steps[1].rows) == {"llada": 4, "dream": 5}[family]
    np.testing.assert_allclose(steps[1].scores.confidence, steps[0].scores.confidence, rtol=1e-9)
    assert steps[1].scores.tokens.tolist() == steps[0].scores.tokens.tolist()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_partial_pass_is_the_published_forward_with_stale_keys_and_values(engines, family):
    """By hand: after one commit, the window's rows attend fresh K/V of the refreshed positions
    and the first pass's K/V elsewhere.
    """
    engine = engines(family, "float64")
    found = list(decode([request(engine, EntropyCache(tau=99.0, k=1), Idle())], engine.runner))
    first, second = found[0], found[1]
    canvas = np.array([4, 5, 6, *[engine.tokenizer.mask_id] * 12])
    stale = keys_and_values(engine, canvas)
    canvas[first.commit.positions] = first.commit.tokens
    hidden = by_hand(engine, canvas, second.rows, stale)
    sources = engine.family.prediction_rows(second.plan.predict)
    logits = engine.network.logits(hidden[torch.from_numpy(np.searchsorted(second.rows, sources))])
    logits[:, engine.tokenizer.mask_id] = torch.finfo(torch.float64).min
    expected = logits.softmax(-1).max(-1).values
    np.testing.assert_allclose(second.scores.confidence, expected.numpy(), rtol=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_last_layer_feeds_forward_only_what_is_predicted_from(engines, family, monkeypatch):
    """Other layers compute every row of a pass; the last one's others end at keys and values."""
    engine = engines(family, "float64")
    counted: list[list[int]] = [[] for _ in engine.network.layers]
    for counts, layer in zip(counted, engine.network.layers, strict=True):
        original = layer.mlp
        monkeypatch.setattr(
            layer, "mlp", lambda x, n=counts, f=original: (n.append(len(x)), f(x))[1]
        )
    steps = list(decode([request(engine, EntropyCache(tau=99.0, k=3), Idle())], engine.runner))
    assert counted[0] == [len(step.rows) for step in steps]
    assert counted[-1] == [len(step.plan.predict) for step in steps]
    assert sum(counted[-1]) < sum(counted[0])


def keys_and_values(engine, canvas):
    kept = {}

    def attend(layer, q, k, v):
        kept[layer] = (k.clone(), v.clone())
        return naive_attention(q, k, v)

    with torch.inference_mode():
        engine.network(torch.from_numpy(canvas), torch.arange(len(canvas)), attend)
    return kept


def by_hand(engine, canvas, rows, stale):
    rows = torch.from_numpy(rows)

    def attend(layer, q, k, v):
        keys, values = (x.clone() for x in stale[layer])
        keys[rows], values[rows] = k, v
        return naive_attention(q, keys, values)

    with torch.inference_mode():
        return engine.network(torch.from_numpy(canvas)[rows], rows, attend)


def naive_attention(q, k, v):
    shared = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(shared, dim=1), v.repeat_interleave(shared, dim=1)
    weights = torch.einsum("qhd,khd->hqk", q, k) / q.shape[-1] ** 0.5
    return torch.einsum("hqk,khd->qhd", weights.softmax(-1), v)


@pytest.mark.parametrize(("heads", "shared"), [(4, 4), (4, 2), (6, 1)])
def test_attention_equals_the_spelt_out_one_with_grouped_heads(heads, shared):
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(5, heads, 8, generator=generator, dtype=torch.float64)
    k = torch.randn(11, shared, 8, generator=generator, dtype=torch.float64)
    v = torch.randn(11, shared, 8, generator=generator, dtype=torch.float64)
    found = attention(q, k.transpose(0, 1), v.transpose(0, 1))
    torch.testing.assert_close(found, naive_attention(q, k, v))
    repeated = F.scaled_dot_product_attention(
        q.transpose(0, 1)[None], k.transpose(0, 1)[None], v.transpose(0, 1)[None], enable_gqa=True
    )
    torch.testing.assert_close(found, repeated[0].transpose(0, 1))


def test_sequences_of_a_batch_rewrite_their_own_positions_only(engines):
    """Unequal rows to refresh per sequence, scattered to the right slot and place."""
    engine = engines("llada")
    runner = engine.runner
    mask = engine.tokenizer.mask_id
    a, b = (Sequence(np.array([p, 7, mask, mask, mask]), mask, 2) for p in (3, 4))
    requests = [
        Request(i, s, NoCache(), None, Sampler(Sampling()), None) for i, s in enumerate((a, b))
    ]
    runner.forward(requests, [plan([2, 3], range(5))] * 2)
    before = [runner.store.slot(request.slot).clone() for request in requests]
    a.canvas[2], b.canvas[4] = 11, 12
    refreshed = ([2, 3], [3, 4])
    runner.forward(requests, [plan([3], rows) for rows in refreshed])
    for request, old, rows in zip(requests, before, refreshed, strict=True):
        changed = (runner.store.slot(request.slot) != old).any(-1).any(2).any(1).any(0)
        assert changed.nonzero().flatten().tolist() == rows
        runner.close(request)
    assert len(runner.store) == 0


def plan(predict, refresh) -> Plan:
    return Plan(np.array(predict, np.int64), np.array(list(refresh), np.int64), Reason.PARTIAL)


def test_no_pass_holds_a_canvas_times_vocabulary_tensor(engines, monkeypatch):
    """A window as large as the canvas still meets the vocabulary in chunks."""
    from entropycache.engine import scoring

    engine = engines("llada")
    vocabulary, length = engine.network.config.vocab_size, 64
    monkeypatch.setattr(scoring, "CHUNK_ENTRIES", 10 * vocabulary)
    seen = []
    head = engine.network.logits
    monkeypatch.setattr(engine.network, "logits", lambda h: seen.append(len(h)) or head(h))
    options = {"gen_length": length, "window": length, "tokens_per_step": 8, "policy": "none"}
    chunked = engine.generate([1, 2], **options)
    assert max(seen) == 10
    assert sum(seen[:7]) == length
    monkeypatch.setattr(scoring, "CHUNK_ENTRIES", 2**25)
    assert engine.generate([1, 2], **options).token_ids == chunked.token_ids


def test_entropies_do_not_depend_on_the_chunks(engines, monkeypatch):
    from entropycache.engine import scoring

    def entropies():
        engine = engines("llada", "float64")
        frames = engine.stream([1, 2], gen_length=24, window=24, tokens_per_step=4)
        return np.concatenate([frame.step.entropies for frame in frames])

    whole = entropies()
    monkeypatch.setattr(scoring, "CHUNK_ENTRIES", 5 * 160)
    np.testing.assert_allclose(entropies(), whole, atol=1e-12)


def test_slots_are_released_when_all_is_done_or_abandoned(engines):
    engine = engines("llada")
    steps = decode([request(engine, NoCache(), Idle())], engine.runner)
    next(steps)
    assert len(engine.runner.store) == 1
    steps.close()
    assert len(engine.runner.store) == 0
    list(decode([request(engine, NoCache(), Idle())], engine.runner))
    assert len(engine.runner.store) == 0


def test_scores_let_go_of_the_logits_at_the_next_pass_and_steps_keep_what_was_asked(engines):
    """Whoever keeps steps keeps small arrays, not logits of a whole vocabulary."""
    engine = engines("llada")
    steps = decode([request(engine, NoCache(), Idle())], engine.runner)
    first = next(steps)
    kept = first.entropies
    second = next(steps)
    next(steps)
    assert first.entropies is kept
    with pytest.raises(AssertionError, match="until the next pass"):
        second.scores.entropy(second.commit.chosen)
    steps.close()
