"""The rivals of EntropyCache, each rule of theirs by hand on small canvases and networks."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from entropycache import GenerationConfig
from entropycache.core.sequence import Sequence
from entropycache.core.steps import Commit, Scores, Step, Window
from entropycache.engine import batch
from entropycache.errors import OptionError
from entropycache.models.attention import attention, attention_weights, mix
from entropycache.policies import make_policy
from entropycache.policies.base import Policy
from entropycache.policies.dkv import _around
from entropycache.policies.elastic import ElasticCache
from entropycache.policies.rollout import Rollout
from tests.conftest import FAMILIES

MASK = 9
LENGTH = 16


def canvas(prompt: int = 3, masks: int = 8) -> Sequence:
    return Sequence(np.array([1] * prompt + [MASK] * masks), MASK, prompt)


def left(positions):
    """The ``sources`` of a shifted model."""
    return np.maximum(positions - 1, 0)


def plans(policy, sequence, commits, width=None, upcoming=False):
    """The plan of each step when these positions are committed, one list a step."""
    found = []
    for index, positions in enumerate(commits):
        masked = sequence.masked()[:width]
        done = np.array(positions, np.int64)
        window = Window(masked, (sequence.start, len(sequence)), done if upcoming else None)
        plan = policy.plan(sequence, window)
        found.append(plan)
        commit = Commit(done, np.full(len(done), 2), np.searchsorted(plan.predict, done))
        scores = Scores(np.full(len(plan.predict), 2), np.full(len(plan.predict), 0.5), lambda i: i)
        sequence.apply(commit)
        policy.observe(
            sequence, Step(0, index, window, plan, scores, commit, plan.refresh, 1.0, False)
        )
    return found


def test_fast_dual_recomputes_the_block_of_the_last_full_pass():
    found = plans(make_policy("fast-dual"), canvas(), [[3], [5], [4, 6], [7], [8]], width=4)
    assert [p.reason for p in found] == ["first", "partial", "partial", "block", "partial"]
    assert [p.refresh.tolist() for p in found[1:3]] == [[3, 4, 5, 6]] * 2
    assert found[1].predict.tolist() == [4, 5, 6], "position 7 is in the window, not in the block"
    assert found[4].refresh.tolist() == [7, 8, 9, 10]


def test_fast_prefix_recomputes_all_that_follows_too():
    found = plans(make_policy("fast-prefix"), canvas(), [[3], [5], [4, 6], [7]], width=4)
    assert [p.reason for p in found] == ["first", "partial", "partial", "block"]
    assert found[1].refresh.tolist() == list(range(3, 11))
    assert found[1].predict.tolist() == [4, 5, 6, 7]


def test_fast_caches_recompute_prediction_rows_on_a_shifted_model():
    dual = plans(make_policy("fast-dual", left), canvas(), [[3], [4]], width=4)
    assert dual[1].refresh.tolist() == [2, 3, 4, 5]
    assert dual[1].predict.tolist() == [4, 5, 6]
    prefix = plans(make_policy("fast-prefix", left), canvas(), [[3], [4]], width=4)
    assert prefix[1].refresh.tolist() == list(range(2, 10))


def test_dkv_decode_caches_a_token_one_step_after_its_commit():
    commits = [[3], [5], [4], [7], [6], [8]]
    found = plans(make_policy("dkv-decode:cache_steps=4"), canvas(), commits)
    assert [p.reason for p in found] == ["first", "block", *["partial"] * 2, "interval", "partial"]
    assert found[2].refresh.tolist() == [4, 5, 6, 7, 8, 9, 10], "masks and the last commit, 5"
    assert found[3].refresh.tolist() == [4, 6, 7, 8, 9, 10], "masks and the last commit, 4"
    assert found[5].refresh.tolist() == [6, 8, 9, 10]


def test_dkv_decode_caches_rows_by_what_they_predict_on_a_shifted_model():
    found = plans(make_policy("dkv-decode", left), canvas(), [[3], [5], [4]])
    # Decoded before the last step: 0 … 3, whose rows are 0, 0, 1, 2.
    assert found[2].refresh.tolist() == [3, 4, 5, 6, 7, 8, 9, 10]


def test_dkv_greedy_recomputes_the_neighbourhood_of_what_comes_next():
    policy = make_policy("dkv-greedy:cache_steps=3,window_size=3")
    found = plans(policy, canvas(), [[6], [8], [5], [4]], upcoming=True)
    assert [p.reason for p in found] == ["first", "partial", "partial", "interval"]
    assert found[1].predict.tolist() == [8]
    assert found[1].refresh.tolist() == [5, 6, 7, 8, 9], "7 left, 9 right, 5 left, and 6 before"
    assert found[2].refresh.tolist() == [3, 4, 5, 7, 8]


def test_dllm_cache_counts_its_two_intervals():
    found = plans(make_policy("dllm:kp=4,kr=2"), canvas(), [[p] for p in range(3, 9)])
    sizes = [p.refresh.tolist() for p in found]
    everything, response = list(range(11)), list(range(3, 11))
    assert sizes == [everything, [], response, [], everything, []]
    assert [p.reason for p in found] == ["first", *["partial", "interval"] * 2, "partial"]


def test_dkv_greedy_looks_around_each_of_several_tokens():
    masked = np.array([3, 4, 5, 6, 7, 38, 39, 40, 41])
    for count, expected in ((0, []), (1, [4]), (4, [4, 39, 6, 41]), (6, [4, 39, 6, 41, 3, 38])):
        assert _around(np.array([5, 40]), masked, count).tolist() == expected
    assert _around(np.array([], np.int64), masked, 4).tolist() == []


def test_d2_ranks_the_surest_masks_first_also_by_entropy(engines):
    """The window's masks are the surest where confidences are alike and the left is decoded."""
    options = {"gen_length": 64, "window": 8, "eb_gamma": 0.0, "early_stop": False}
    frames = engines("llada").stream([5, 6, 7], policy="d2:variant=paper,current_k=8", **options)
    for frame in list(frames)[1:30]:
        predicted = np.isin(frame.step.plan.predict, frame.step.window.positions)
        assert predicted.sum() > 4


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("d2:variant=best", "released or paper"),
        ("d2:current_k=0", "current_k must be 1 or more"),
        ("d2:rollout_p=-1", "0 or more"),
        ("d2:sigma=0", "sigma above 0"),
        ("elastic:variant=new", "released or paper"),
        ("elastic:gamma=-2", "a cosine"),
        ("elastic:track_num=0", "1 or more tokens"),
        ("dkv-decode:cache_steps=0", "1 or more steps"),
        ("dkv-greedy:cache_steps=0", "1 or more steps"),
        ("dkv-greedy:window_size=-1", "0 or more masks"),
        ("dllm:kp=0", "kp must be 1 or more"),
        ("dllm:rou=1.5", "a share from 0 to 1"),
        ("fast-dual:block=4", "unknown option 'block'; known: none"),
    ],
)
def test_wrong_options_say_what_is_accepted(spec, said):
    with pytest.raises(OptionError, match=said):
        make_policy(spec)


def test_weights_and_mix_are_the_attention():
    generator = torch.Generator().manual_seed(0)
    for heads, shared in ((4, 4), (4, 2), (6, 1)):
        q = torch.randn(5, heads, 8, generator=generator, dtype=torch.float64)
        k, v = (torch.randn(shared, 11, 8, generator=generator, dtype=torch.float64) for _ in "kv")
        weights = attention_weights(q, k)
        assert weights.shape == (heads, 5, 11)
        torch.testing.assert_close(mix(weights, v), attention(q, k, v))


def test_the_rollout_is_the_column_sum_of_the_dense_product():
    """Rows that were not computed attend to themselves, as in the released code."""
    generator = torch.Generator().manual_seed(0)
    length, dense, rollout = 9, torch.eye(9, dtype=torch.float64), Rollout()
    for _ in range(4):
        rows = torch.randperm(length, generator=generator)[:5].sort().values
        weights = torch.rand(3, 5, length, generator=generator, dtype=torch.float64).softmax(-1)
        rollout.add(rows.numpy(), weights)
        full = torch.eye(length, dtype=torch.float64)
        full[rows] = weights.mean(0)
        mixed = full + torch.eye(length, dtype=torch.float64)
        dense = mixed / mixed.sum(1, keepdim=True) @ dense
    np.testing.assert_allclose(rollout.take(length), dense.sum(0).numpy(), rtol=1e-12)
    assert not rollout._layers, "what was added is let go"


def test_the_paper_variant_of_d2_updates_certainties_and_the_released_one_does_not():
    for variant, expected in (("released", 0.5), ("paper", 0.75)):
        policy, sequence = make_policy(f"d2:variant={variant}"), canvas()
        policy.layer(0, np.arange(len(sequence)), torch.ones(1, 11, 11), None)
        plans(policy, sequence, [[3]])
        scores = Scores(np.array([2]), np.array([0.75]), lambda i: i)
        window = Window(sequence.masked(), (3, 11))
        plan = type("Plan", (), {"predict": np.array([5])})
        nothing = Commit(*(np.empty(0, np.int64) for _ in range(3)))
        policy.layer(0, np.array([5]), torch.ones(1, 1, len(sequence)), None)
        policy.observe(
            sequence, Step(0, 1, window, plan, scores, nothing, np.array([5]), 1.0, False)
        )
        assert policy._certainty[5] == expected


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("spec", ["d2:variant=paper", "elastic:gamma=-1"])
def test_watching_a_pass_does_not_change_it(engines, family, spec):
    """A policy that plans the same without looking, so with fused attention, decodes the same."""
    engine = engines(family, "float64")
    options = {"gen_length": LENGTH, "window": 4, "tokens_per_step": 1}
    watched = list(engine.stream([5, 6, 7], policy=spec, **options))
    rows = iter([frame.step.plan for frame in watched])

    class Replayed(Policy):
        def plan(self, sequence, window):
            return next(rows)

    assert not Replayed().watches
    request = engine.request(0, [5, 6, 7], GenerationConfig().merge(**options))
    request.policy = Replayed()
    from entropycache.engine.loop import decode

    for frame, step in zip(watched, decode([request], engine.runner), strict=True):
        assert step.commit.positions.tolist() == frame.step.commit.positions.tolist()
        assert step.commit.tokens.tolist() == frame.step.commit.tokens.tolist()
        np.testing.assert_allclose(step.scores.confidence, frame.step.scores.confidence, rtol=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("variant", ["released", "paper"])
def test_drift_in_the_first_layer_recomputes_all_others_whole(engines, family, variant):
    """No similarity reaches 2: the first layer is partial, all above hold every position."""
    engine = engines(family, "float64")
    spec = f"elastic:gamma=2,variant={variant}"
    frames = list(engine.stream([5, 6, 7], policy=spec, gen_length=LENGTH, tokens_per_step=1))
    layers, length = engine.network.config.num_hidden_layers, 3 + LENGTH
    for frame in frames[1:]:
        step = frame.step
        sources = engine.family.prediction_rows(step.plan.predict)
        first = len(np.union1d(step.plan.refresh, sources))
        assert len(step.rows) == length
        assert step.work == (first + (layers - 1) * length) / layers
        assert step.full == (first == length)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_widened_pass_over_an_unchanged_canvas_gives_what_the_full_pass_gave(engines, family):
    """Nothing was committed, so the inputs kept from the full pass are as good as new."""
    engine = engines(family, "float64")
    settings = GenerationConfig().merge(policy="elastic:gamma=2", gen_length=LENGTH, window=4)
    request = engine.request(0, [5, 6, 7], settings)

    class Idle:
        def count(self, confidence, sequence, window):
            return 0 if sequence.steps < 2 else len(confidence)

    from dataclasses import replace

    from entropycache.engine.loop import decode

    request.strategy = replace(request.strategy, commits=Idle())
    first, second, *_ = decode([request], engine.runner)
    assert first.full and not second.full and len(second.rows) == 3 + LENGTH
    assert second.scores.tokens.tolist() == first.scores.tokens.tolist()
    np.testing.assert_allclose(second.scores.confidence, first.scores.confidence, rtol=1e-9)


def test_elastic_cache_tracks_what_the_window_attends_to_most():
    policy, sequence = ElasticCache(track_num=2), canvas(3, 3)
    policy.plan(sequence, Window(np.array([3, 4]), (3, 6)))
    weights = torch.zeros(2, 6, 6)
    weights[:, 3:5, 5] = 0.9  # a mask: not eligible
    weights[0, 3, 2], weights[1, 4, 0], weights[0, 4, 1] = 0.5, 0.4, 0.3
    weights[:, 0, 1] = 1.0  # not a row of the window
    assert policy.layer(0, np.arange(6), weights, None) is False
    assert policy._next[0].tolist() == [0, 2]
    sequence.apply(Commit(np.array([4]), np.array([2]), np.array([1])))
    policy.observe(sequence, step_of(sequence, [4]))
    plan = policy.plan(sequence, Window(np.array([3, 5]), (3, 6)))
    assert plan.refresh.tolist() == [0, 2, 3, 4, 5]


def step_of(sequence, positions):
    found = np.array(positions, np.int64)
    scores = Scores(found, np.ones(len(found)), lambda i: i)
    commit = Commit(found, found, np.arange(len(found)))
    window = Window(found, (sequence.start, len(sequence)))
    return Step(0, 0, window, None, scores, commit, found, 1.0, False)


@pytest.mark.parametrize(("family", "width"), [("llada", 16), ("dream", 32)])
def test_elastic_cache_has_a_window_of_its_own_where_none_is_asked_for(engines, family, width):
    engine = engines(family)

    def first(**options):
        frames = engine.stream([1], gen_length=40, **options)
        window = next(frames).step.window.positions
        frames.close()
        return len(window)

    assert first(policy="elastic") == width
    assert first(policy="elastic", window=5) == 5
    assert first(policy="entropy") == 32


@pytest.mark.parametrize("family", FAMILIES)
def test_dllm_cache_computes_the_first_layer_whole_and_a_share_of_the_others(engines, family):
    engine = engines(family, "float64")
    layers, length = engine.network.config.num_hidden_layers, 5 + LENGTH
    for rou, chosen in ((0.0, 0), (0.25, 4), (0.5, 8)):
        options = {"policy": f"dllm:kp=99,kr=99,rou={rou}", "gen_length": LENGTH}
        frames = list(engine.stream([5, 6, 7, 8, 9], tokens_per_step=2, **options))
        assert frames[0].step.full
        for frame in frames[1:]:
            assert frame.step.work == (length + (layers - 1) * chosen) / layers
            assert len(frame.step.rows) == chosen
            assert not frame.step.full


def test_weights_are_computed_only_for_the_sequences_that_ask(engines, monkeypatch):
    engine, asked = engines("llada"), []
    original = batch.attention_weights

    def counted(q, keys):
        asked.append(keys.shape[1])
        return original(q, keys)

    monkeypatch.setattr(batch, "attention_weights", counted)
    options = {"gen_length": 8, "tokens_per_step": 8}
    jobs = [
        ([1] * n, GenerationConfig().merge(policy=p, **options))
        for n, p in ((1, "none"), (2, "d2"), (3, "entropy"), (4, "dllm"), (5, "elastic"))
    ]
    assert len(dict(engine.run(jobs, batch_size=5))) == 5
    assert set(asked) == {2 + 8, 5 + 8}
