"""EntropyCache, number by number, and the recency it rests on."""

from __future__ import annotations

import math

import numpy as np
import pytest

from entropycache.core.sequence import Sequence
from entropycache.core.steps import Commit, Plan, Reason, Scores, Step, Window
from entropycache.errors import OptionError
from entropycache.policies import EntropyCache, NoCache, make_policy

MASK = 9


def sequence(prompt: int = 3, masks: int = 8) -> Sequence:
    return Sequence(np.array([1] * prompt + [MASK] * masks), MASK, prompt)


def commit(*positions: int) -> Commit:
    found = np.array(positions, np.int64)
    return Commit(found, np.full(len(found), 2), np.arange(len(found)))


def step(window: Window, plan: Plan, done: Commit, entropies: list[float]) -> Step:
    values = np.array(entropies)
    scores = Scores(done.tokens, np.ones(len(values)), lambda chosen: values[chosen])
    return Step(0, 0, window, plan, scores, done, plan.refresh, len(plan.refresh), False)


def play(policy: EntropyCache, canvas: Sequence, done: Commit, entropies: list[float]) -> Plan:
    """One step with a given commit; the plan that follows it, for a window of the leftmost two."""
    window = Window(canvas.masked()[:2], (canvas.start, len(canvas)))
    plan = policy.plan(canvas, window)
    canvas.apply(done)
    policy.observe(canvas, step(window, plan, done, entropies))
    return policy.plan(canvas, Window(canvas.masked()[:2], (canvas.start, len(canvas))))


def test_the_first_plan_is_full_whatever_tau():
    for tau in (-1.0, 0.0, math.inf):
        plan = EntropyCache(tau=tau).plan(sequence(), Window(np.array([3, 4]), (3, 11)))
        assert plan.reason is Reason.FIRST
        assert plan.refresh.tolist() == list(range(11))
        assert plan.predict.tolist() == [3, 4]


def test_the_largest_entropy_of_the_commit_decides_and_tau_itself_is_still_fresh():
    assert play(EntropyCache(tau=0.5), sequence(), commit(3, 4), [0.2, 0.51]).reason is Reason.STALE
    plan = play(EntropyCache(tau=0.5), sequence(), commit(3, 4), [0.5, 0.2])
    assert plan.reason is Reason.PARTIAL
    assert plan.predict.tolist() == [5, 6]
    assert plan.refresh.tolist() == [3, 4, 5, 6]


def test_only_this_steps_commits_count():
    policy, canvas = EntropyCache(tau=0.5), sequence()
    assert play(policy, canvas, commit(3), [2.0]).reason is Reason.STALE
    assert play(policy, canvas, commit(4), [0.1]).reason is Reason.PARTIAL


def test_a_step_that_commits_nothing_asks_for_a_partial_pass():
    policy, canvas = EntropyCache(tau=-1.0), sequence()
    plan = play(policy, canvas, commit(), [])
    assert policy.staleness == -math.inf
    assert plan.reason is Reason.PARTIAL


def test_k_limits_the_recent_positions():
    policy, canvas = EntropyCache(tau=9.0, k=2), sequence()
    play(policy, canvas, commit(10), [0.1])
    play(policy, canvas, commit(3, 7), [0.1, 0.1])
    plan = play(policy, canvas, commit(4), [0.1])
    # Newest first: 4, then of the step before it the lower position, 3.
    assert plan.refresh.tolist() == [3, 4, 5, 6]
    none = play(EntropyCache(tau=9.0, k=0), sequence(), commit(3), [0.1])
    assert none.refresh.tolist() == none.predict.tolist()


def test_recent_is_newest_first_and_by_position_within_a_step():
    canvas = sequence()
    for done in (commit(9), commit(4, 6, 8), commit(), commit(3, 5)):
        canvas.apply(done)
    assert canvas.recent(10).tolist() == [3, 5, 4, 6, 8, 9]
    assert canvas.recent(3).tolist() == [3, 5, 4]
    assert canvas.recent(0).tolist() == []


def test_a_canvas_accepts_commits_at_masks_only():
    canvas = sequence()
    with pytest.raises(AssertionError):
        canvas.apply(commit(0))


def test_specs_build_policies_and_say_what_is_wrong():
    assert make_policy("none") == NoCache()
    assert make_policy(" entropy:tau=0.25, k=7 ") == EntropyCache(tau=0.25, k=7)
    for spec, said in {
        "entropi": "unknown policy 'entropi'; known are d2, .*, entropy, .*, none",
        "entropy:kappa=1": "unknown option 'kappa'; known: tau, k",
        "entropy:k=1.5": "k must be a whole number, not '1.5'",
        "entropy:tau": "expected name:key=value",
        "entropy:k=1,k=2": "given twice",
        "entropy:k=-1": "k must be 0 or more",
        "entropy:tau=nan": "not nan",
        "none:k=1": "unknown option 'k'; known: none",
    }.items():
        with pytest.raises(OptionError, match=said.replace("(", r"\(")):
            make_policy(spec)


@pytest.mark.parametrize("family", ["llada", "dream"])
def test_a_partial_pass_computes_the_window_its_sources_and_the_recent_positions(engines, family):
    """Exactly these; on Dream the window's own rows are rewritten as well as their sources."""
    engine = engines(family)
    frames = engine.stream([1, 2, 3], gen_length=16, policy="entropy:tau=99,k=3", window=4)
    commits = [next(frames).step.commit.positions.tolist()]
    for frame in frames:
        window = frame.step.window.positions.tolist()
        assert frame.step.plan.reason is Reason.PARTIAL
        recent = [p for step in reversed(commits) for p in step][:3]
        sources = window if family == "llada" else [p - 1 for p in window]
        assert frame.step.rows.tolist() == sorted({*window, *sources, *recent})
        commits.append(frame.step.commit.positions.tolist())
    assert len(commits) > 3
