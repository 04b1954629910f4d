"""Reference outputs of other people's code: logits in float32, decoded tokens in float64."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from entropycache import Completion, GenerationConfig
from tests.conftest import DATA, FAMILIES

POLICIES = {
    "none": "none",
    "prefix": "fast-prefix",
    "dual": "fast-dual",
    "d2cache": "d2:rollout_p={rollout_p},current_k={current_k},sigma={sigma},inflate_w={inflate_w}",
    "dllm": "dllm:kp={kp},kr={kr},rou={rou}",
}


def cases(family: str) -> list[dict[str, Any]]:
    """All reference cases of a family, those of every cache."""
    found: list[dict[str, Any]] = json.loads((DATA / family / "cases.json").read_text())
    return found


def config(case: dict[str, Any]) -> GenerationConfig:
    decode = case["decode"]
    rule: dict[str, Any] = {"tokens_per_step": decode.get("num_transfer_tokens")}
    if "threshold" in decode:  # with both, the reference lets the threshold win
        rule = {"threshold": decode["threshold"]}
    elif "steps" in decode:
        rule = {"steps": decode["steps"]}
    return GenerationConfig(
        policy=POLICIES[case["cache"]].format(**case["cache_args"]),
        sigma=decode.get("sigma") or None,
        gen_length=decode["gen_length"],
        block_length=decode["block_length"],
        early_stop=False,
        **rule,
    )


def assert_matches(case: dict[str, Any], found: Completion) -> None:
    assert found.token_ids == case["output"], f"case {case['id']}"
    if "commits" in case:
        assert found.commits == case["commits"], f"case {case['id']}"
    if case.get("forwards") is not None:
        assert found.forwards == case["forwards"], f"case {case['id']}"


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_of_a_full_pass_are_the_reference_ones(engines, family):
    reference = load_file(DATA / family / "logits.safetensors")
    numbers = [name.removeprefix("ids.") for name in reference if name.startswith("ids.")]
    assert numbers
    for number in numbers:
        ids = reference[f"ids.{number}"].flatten().tolist()
        expected = reference[f"logits.{number}"].reshape(len(ids), -1)
        torch.testing.assert_close(
            engines(family, "float32").logits(ids), expected, atol=5e-4, rtol=0
        )


@pytest.mark.parametrize("cache", POLICIES)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_case_is_reproduced_alone(engines, family, cache):
    """Also those whose reference copies a defect or a peculiarity (``must`` is false)."""
    engine = engines(family, "float64")
    found = [case for case in cases(family) if case["cache"] == cache]
    counts = {"llada": (34, 26, 26, 32, 12), "dream": (16, 16, 16, 32, 14)}[family]
    assert len(found) == dict(zip(POLICIES, counts, strict=True))[cache]
    for case in found:
        assert_matches(case, engine.generate(case["prompt"], config(case)))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_case_is_reproduced_in_one_ragged_batch(engines, family):
    """All caches, prompts and rules side by side in the same passes."""
    engine = engines(family, "float64")
    found = cases(family)
    assert len(found) == {"llada": 130, "dream": 94}[family]
    jobs = [(case["prompt"], config(case)) for case in found]
    done = dict(engine.run(jobs, batch_size=len(jobs)))
    for i, case in enumerate(found):
        assert_matches(case, done[i])


@pytest.mark.parametrize("family", FAMILIES)
def test_a_cache_that_always_refreshes_reproduces_them_too(engines, family):
    engine = engines(family, "float64")
    plain = [case for case in cases(family) if case["cache"] == "none"]
    for case in plain[::4]:
        settings = config(case).merge(policy="entropy:tau=-1")
        assert_matches(case, engine.generate(case["prompt"], settings))


def test_the_cached_references_are_not_met_by_other_settings(engines):
    """The checks can fail: each cached case set apart by its cache differs from plain decoding."""
    engine = engines("llada", "float64")
    for cache in ("prefix", "dual", "d2cache", "dllm"):
        found = [case for case in cases("llada") if case["cache"] == cache]
        plain = (config(case).merge(policy="none") for case in found)
        outputs = [engine.generate(c["prompt"], p) for c, p in zip(found[:6], plain, strict=False)]
        assert any(o.token_ids != c["output"] for o, c in zip(outputs, found, strict=False)), cache


def test_the_dream_reference_is_not_met_without_its_shift(engines):
    """The check can fail: a Dream network read without its shift answers differently."""
    from entropycache.engine.runner import Runner
    from entropycache.models.llada import LLADA

    engine = engines("dream", "float64")
    case = next(case for case in cases("dream") if case["cache"] == "none")
    shifted, engine.runner = engine.runner, Runner(engine.network, LLADA, engine.tokenizer.mask_id)
    try:
        found = engine.generate(case["prompt"], config(case))
    finally:
        engine.runner = shifted
    assert np.array(found.token_ids).tolist() != case["output"]
