"""Presets: tasks that exist, settings that hold, and explicit options that win."""

from __future__ import annotations

import pytest

from entropycache import GenerationConfig
from entropycache.errors import EntropyCacheError
from entropycache.evaluation import offline, presets
from tests.evaluation.tools import measured


def test_presets_are_tasks_that_exist_with_settings_that_hold(few_tasks):
    for preset in presets.PRESETS.values():
        assert preset.task in offline.names() or preset.task in few_tasks.task_index
        for family in presets.DECODING:
            options = presets.decoding(preset, family, {})
            assert GenerationConfig(**options).gen_length == preset.gen_length
    gsm8k = presets.PRESETS["paper-gsm8k"]
    assert presets.decoding(gsm8k, "llada", {})["block_length"] == 32
    assert presets.decoding(gsm8k, "Dream", {})["temperature"] == 0.1
    given = presets.decoding(gsm8k, "Dream", {"steps": 64, "temperature": 0.0})
    assert given == {"window": 32, "gen_length": 256, "steps": 64, "temperature": 0, "top_p": 0.9}
    with pytest.raises(EntropyCacheError, match="presets are for llada and Dream, not for other"):
        presets.decoding(gsm8k, "other", {})


def test_a_preset_runs_and_explicit_options_win(tmp_path):
    arguments = ["--preset", "paper-humaneval", "--limit", "2", "--confirm-run-unsafe-code"]
    found = measured(tmp_path / "e.json", *arguments, "--gen-length", "16")
    task = found["tasks"]["humaneval"]
    assert task["samples"] == 2 and set(task["metrics"]) == {"pass@1"}
    assert task["decoding"]["block_length"] == 32 and task["decoding"]["gen_length"] == 16
    assert found["settings"]["preset"] == "paper-humaneval"
