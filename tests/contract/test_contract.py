"""The invariants of every policy under every strategy, on both families, with unequal prompts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from entropycache import GenerationConfig
from entropycache.errors import OptionError
from entropycache.policies import POLICIES
from tests.conftest import FAMILIES

LENGTH = 9
PROMPTS = [[3, 1, 4, 1, 5, 9, 2, 6], [], [7] * 3]
WINDOWS = ({"block_length": 5}, {"window": 4}, {"window": 100})
RULES = (
    {"tokens_per_step": 1},
    {"tokens_per_step": 3, "sigma": 4.0},
    {"steps": 6},
    {"steps": 30},
    {"threshold": 0.6},
    {"factor": 1.0},
    {"eb_gamma": 2.0},
    {"tokens_per_step": 2, "order": "random"},
    {"steps": 6, "order": "left-to-right"},
)
DREAM = ({"steps": 6, "alg": "entropy", "alg_temp": 0.5}, {"steps": 20, "alg": "origin"})
"""Dream's sampler has the whole canvas in view and takes no window."""
REFRESHING = {
    "none": "none",
    "entropy": "entropy:tau=-1",
    "d2": f"d2:variant=paper,current_k={LENGTH},rollout_p=1",
    "dkv-decode": "dkv-decode:cache_steps=1",
    "dkv-greedy": "dkv-greedy:cache_steps=1",
    "dllm": "dllm:kp=1,kr=1",
    "elastic": None,
    "fast-prefix": None,
    "fast-dual": None,
}
"""For each policy the setting that refreshes everything, ``None`` where it has none."""
SPECS = (*POLICIES, "d2:variant=paper,current_k=4", "elastic:variant=paper", "d2:current_k=3")
"""What is run: every policy as it is, variants, and settings tight enough to matter here."""


def combines(spec: str, options: dict[str, object]) -> bool:
    """Whether a policy goes with a rule; what does not is refused, see below."""
    drawn = "order" in options or options.get("alg") == "origin"
    return not spec.startswith("dkv-greedy") or drawn


combinations = pytest.mark.parametrize(
    ("family", "policy", "options"),
    [
        pytest.param(f, p, w | r, id=f"{f}-{p}-{'-'.join(f'{k}{v}' for k, v in (w | r).items())}")
        for f, p, (w, r) in itertools.product(
            FAMILIES, SPECS, [*itertools.product(WINDOWS, RULES), *(({}, r) for r in DREAM)]
        )
        if combines(p, r)
    ],
)


def settings(policy: str, options: dict[str, object]) -> GenerationConfig:
    return GenerationConfig().merge(policy=policy, gen_length=LENGTH, early_stop=False, **options)


def trace_of(engine, prompt, config):
    return [
        (
            s.plan.reason,
            s.rows.tolist(),
            s.work,
            s.commit.positions.tolist(),
            s.commit.tokens.tolist(),
        )
        for s in (frame.step for frame in engine.stream(prompt, config))
    ]


def test_every_policy_is_covered():
    assert set(REFRESHING) == set(POLICIES)


@combinations
def test_prompt_and_committed_tokens_never_change(engines, family, policy, options):
    """And the first step computes everything, only what was predicted is committed, no mask is left
    within the masks or the steps, and an abandoned generator releases its slot.
    """
    engine = engines(family)
    for prompt in PROMPTS[:2]:
        check_invariants(engine, prompt, settings(policy, options), options.get("steps", 0))
    frames = engine.stream(PROMPTS[0], settings(policy, options))
    next(frames)
    frames.close()
    assert len(engine.runner.store) == 0


def check_invariants(engine, prompt, config, steps):
    before = np.array(prompt + [engine.tokenizer.mask_id] * LENGTH)
    for count, frame in enumerate(engine.stream(prompt, config)):
        assert (np.diff(frame.step.rows) > 0).all(), "ascending, each once"
        assert not frame.step.full or len(frame.step.rows) == len(before)
        if not count:
            assert frame.step.full
            assert frame.step.rows.tolist() == list(range(len(before)))
        committed = before != engine.tokenizer.mask_id
        assert (frame.canvas[committed] == before[committed]).all()
        changed = np.flatnonzero(frame.canvas != before)
        assert changed.tolist() == frame.step.commit.positions.tolist()
        assert np.isin(changed, frame.step.window.positions).all()
        assert np.isin(changed, frame.step.plan.predict).all()
        assert 0 <= frame.step.work <= len(before), "a pass may have nothing to do"
        before = frame.canvas
    assert (before != engine.tokenizer.mask_id).all(), "no mask is left at the end"
    assert count < max(LENGTH, steps)


@combinations
def test_a_ragged_batch_equals_its_single_runs(engines, family, policy, options):
    engine = engines(family)
    config = settings(policy, options)
    # A canvas of masks alone looks the same from everywhere: all its confidences tie exactly, and
    # rounding, which differs from processor to processor, would decide.
    prompts = [prompt or [7] for prompt in PROMPTS]
    alone = [engine.generate(prompt, config) for prompt in prompts]
    together = engine.generate(prompts, config, batch_size=3)
    for single, batched in zip(alone, together, strict=True):
        assert batched.token_ids == single.token_ids
        assert batched.commits == single.commits
        assert batched.rows_computed == single.rows_computed


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("policy", SPECS)
def test_the_same_seed_gives_the_same_trace(engines, family, policy):
    engine = engines(family)
    for rule in (RULES[-2], DREAM[0], {"threshold": 0.6, "window": 4}):
        if combines(policy, rule):
            config = settings(policy, rule)
            config = config.merge(temperature=0.8, top_p=0.9, seed=3)
            first, second = (trace_of(engine, PROMPTS[0], config) for _ in range(2))
            assert first == second


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("policy", "spec"), [(p, s) for p, s in REFRESHING.items() if s])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_refreshing_everything_equals_no_cache(engines, family, policy, spec, window):
    engine = engines(family, "float64")
    for options in (*(window | rule for rule in RULES), *DREAM):
        if combines(policy, options):
            plain = engine.generate(PROMPTS[0], settings("none", options))
            other = engine.generate(PROMPTS[0], settings(spec, options))
            assert other.token_ids == plain.token_ids
            assert other.commits == plain.commits


@pytest.mark.parametrize(
    "rule", [r for r in (*RULES, *DREAM) if not combines("dkv-greedy", r)], ids=str
)
def test_a_policy_that_needs_an_order_is_refused_without_one(engines, rule):
    with pytest.raises(OptionError, match="needs an order drawn in advance: give order=random"):
        engines("llada").generate([1], settings("dkv-greedy", rule))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("policy", SPECS)
def test_infilling_fills_the_masks_and_changes_nothing_else(engines, family, policy):
    engine = engines(family)
    mask = engine.tokenizer.mask_id
    given = [3, mask, 5, mask, mask, 8, 9, 2, mask, 4, mask, mask, mask, 6]
    rules = (
        {"tokens_per_step": 1, "order": "left-to-right", "block_length": 4},
        {"tokens_per_step": 2, "order": "random", "window": 3},
        {"threshold": 0.5, "window": 3},
        {"steps": 8, "block_length": 4},
    )
    for ids, options in itertools.product((given, [mask, mask, *given]), rules):
        if combines(policy, options):
            done = engine.infill(ids, policy=policy, **options)
            kept = [t for t, g in zip(done.token_ids, ids, strict=True) if g != mask]
            assert kept == [g for g in ids if g != mask]
            assert mask not in done.token_ids
            assert sorted(sum(done.commits, [])) == [i for i, g in enumerate(ids) if g == mask]
            assert done.prompt_tokens == len(kept)
