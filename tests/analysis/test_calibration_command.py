"""``entropycache calibrate``: saved beside the model, and used by name."""

from __future__ import annotations

import json
import shutil
from importlib.resources import files

import pytest
from typer.testing import CliRunner

from entropycache import load
from entropycache.cli import app
from entropycache.errors import CheckpointError, OptionError
from tests.conftest import DATA


def test_a_saved_calibration_is_used_by_name(tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(DATA / "llada", folder)
    command = ["calibrate", "--model", str(folder), "--prompts", str(tmp_path / "p.jsonl")]
    command += ["--target-agreement", "0.9", "--gen-length", "16", "--tokens-per-step", "2"]
    lines = [json.dumps({"id": i, "prompt_ids": [i, 2, 3]}) + "\n" for i in range(10)]
    (tmp_path / "p.jsonl").write_text("".join(lines[:9]))
    few = CliRunner().invoke(app, command)
    assert "at least 10 prompts, not 9" in str(few.exception)
    (tmp_path / "p.jsonl").write_text("".join(lines))
    options = {"gen_length": 16, "tokens_per_step": 2, "policy": "calibrated"}
    with pytest.raises(OptionError, match="needs a calibration saved beside the model"):
        load(str(folder)).generate([1, 2, 3], **options)
    shown = CliRunner().invoke(app, [*command, "--save"])
    assert shown.exit_code == 0, shown.output
    saved = json.loads((folder / "entropycache.json").read_text())
    assert f"use --policy {saved['policy']}" in shown.output
    assert saved["decoding"]["tokens_per_step"] == 2
    engine = load(str(folder))
    named = engine.generate([1, 2, 3], **options)
    spelt = engine.generate([1, 2, 3], **{**options, "policy": saved["policy"]})
    assert named.commits == spelt.commits and named.rows_computed == spelt.rows_computed
    (folder / "entropycache.json").write_text("{}")
    with pytest.raises(CheckpointError, match="not what calibrate saves"):
        load(str(folder))


def test_the_package_ships_no_calibration_by_accident():
    assert not (files("entropycache") / "assets" / "tiny" / "entropycache.json").is_file()
