"""The invariants of every policy under every strategy, on both families, with unequal prompts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from entropycache import GenerationConfig
from entropycache.policies import POLICIES
from tests.conftest import FAMILIES

LENGTH = 24
PROMPTS = [[5, 9, 13], [7] * 11, [], [3, 1, 4, 1, 5, 9, 2, 6]]
WINDOWS = ({"block_length": 8}, {"window": 6}, {"block_length": 24}, {"window": 100})
RULES = (
    {"tokens_per_step": 1},
    {"tokens_per_step": 3},
    {"steps": 12},
    {"steps": 48},
    {"threshold": 0.6},
    {"factor": 1.0},
)
REFRESHING = {"none": "none", "entropy": "entropy:tau=-1"}
"""For each policy, the setting that refreshes everything; one without such a setting has none."""

combinations = pytest.mark.parametrize(
    ("family", "policy", "options"),
    [
        pytest.param(f, p, w | r, id=f"{f}-{p}-{'-'.join(f'{k}{v}' for k, v in (w | r).items())}")
        for f, p, w, r in itertools.product(FAMILIES, POLICIES, WINDOWS, RULES)
    ],
)


def settings(policy: str, options: dict[str, float]) -> GenerationConfig:
    return GenerationConfig.of(policy=policy, gen_length=LENGTH, early_stop=False, **options)


def trace_of(engine, prompt, config):
    return [
        (
            s.plan.reason,
            s.rows.tolist(),
            s.commit.positions.tolist(),
            s.commit.tokens.tolist(),
        )
        for s in (frame.step for frame in engine.stream(prompt, config))
    ]


@combinations
def test_the_first_step_computes_every_position(engines, family, policy, options):
    frames = engines(family).stream(PROMPTS[0], settings(policy, options))
    first = next(frames)
    frames.close()
    assert first.step.full
    assert first.step.rows.tolist() == list(range(len(PROMPTS[0]) + LENGTH))
    assert len(engines(family).runner.store) == 0, "an abandoned generator released its slot"


@combinations
def test_prompt_and_committed_tokens_never_change(engines, family, policy, options):
    engine = engines(family)
    prompt = PROMPTS[3]
    before = np.array(prompt + [engine.text.mask_id] * LENGTH)
    for frame in engine.stream(prompt, settings(policy, options)):
        committed = before != engine.text.mask_id
        assert (frame.canvas[committed] == before[committed]).all()
        changed = np.flatnonzero(frame.canvas != before)
        assert changed.tolist() == frame.step.commit.positions.tolist()
        assert np.isin(changed, frame.step.window.positions).all()
        assert np.isin(changed, frame.step.plan.predict).all()
        before = frame.canvas
    assert (before != engine.text.mask_id).all(), "no mask is left at the end"


@combinations
def test_it_ends_within_the_masks_or_the_steps(engines, family, policy, options):
    done = engines(family).generate(PROMPTS[1], settings(policy, options))
    assert done.forwards <= max(LENGTH, options.get("steps", 0))
    assert sorted(p for step in done.commits for p in step) == list(range(LENGTH))


@combinations
def test_a_ragged_batch_equals_its_single_runs(engines, family, policy, options):
    engine = engines(family)
    config = settings(policy, options)
    alone = [engine.generate(prompt, config) for prompt in PROMPTS]
    together = engine.generate(PROMPTS, config, batch_size=3)
    for single, batched in zip(alone, together, strict=True):
        assert batched.token_ids == single.token_ids
        assert batched.commits == single.commits
        assert batched.rows_computed == single.rows_computed


@combinations
def test_the_same_seed_gives_the_same_trace(engines, family, policy, options):
    engine = engines(family)
    config = GenerationConfig.of(settings(policy, options), temperature=0.8, top_p=0.9, seed=3)
    first, second = (trace_of(engine, PROMPTS[0], config) for _ in range(2))
    assert first == second


@combinations
def test_refreshing_everything_equals_no_cache(engines, family, policy, options):
    if policy not in REFRESHING:
        pytest.skip(f"{policy} has no setting that refreshes everything")
    engine = engines(family, "float64")
    plain = engine.generate(PROMPTS[0], settings("none", options))
    other = engine.generate(PROMPTS[0], settings(REFRESHING[policy], options))
    assert other.token_ids == plain.token_ids
    assert other.commits == plain.commits
