"""``entropycache bench``: what it writes, and mistakes told before anything is decoded."""

from __future__ import annotations

import csv
import json

import pytest
import torch
from typer.testing import CliRunner

from entropycache.bench import comparison
from entropycache.bench.command import Matrix, options_of
from entropycache.cli import app
from entropycache.errors import OptionError
from tests.conftest import DATA


def test_rules_are_decoding_options():
    assert options_of("threshold=0.8,window=16,early_stop=false") == {
        "threshold": 0.8,
        "window": 16,
        "early_stop": False,
    }
    with pytest.raises(OptionError, match="treshold"):
        options_of("treshold=0.8")
    candidates = Matrix(
        policies=("none", "d2"), rules=("threshold=0.9", "tokens_per_step=2")
    ).candidates()
    assert [candidate.name for candidate in candidates] == [
        "plain",
        "none, threshold=0.9",
        "d2, threshold=0.9",
        "none, tokens_per_step=2",
        "d2, tokens_per_step=2",
    ]
    assert candidates[0].config.early_stop is False and candidates[0].config.block_length == 32
    assert candidates[-1].config.tokens_per_step == 2 and candidates[-1].config.threshold is None


def test_the_command_writes_table_json_csv_and_pictures(tmp_path):
    out = tmp_path / "out"
    command = ["bench", "--count", "2", "--tasks", "aiw", "--gen-length", "40", "--no-plain"]
    command += ["--shots", "0", "--shots", "1", "--output", str(out)]
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0, shown.output
    data = json.loads((out / "bench.json").read_text())
    assert list(data["results"]) == ["0-shot", "1-shot"]
    assert list(data["results"]["0-shot"]) == ["none", "entropy"]
    assert data["configs"]["entropy"]["gen_length"] == 40
    assert data["versions"]["torch"] == torch.__version__
    lines = list(csv.DictReader((out / "bench.csv").read_text().splitlines()))
    assert [(line["setting"], line["name"]) for line in lines][:2] == [
        ("0-shot", "none"),
        ("0-shot", "entropy"),
    ]
    shots = data["results"]["1-shot"]["none"]["prompt_tokens"]
    assert shots > data["results"]["0-shot"]["none"]["prompt_tokens"]
    pictures = {p.name for p in out.glob("*.png")}
    assert pictures == {
        "context.png",
        *(f"{kind}_{n}-shot.png" for kind in ("speed_accuracy", "time") for n in (0, 1)),
    }


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--policy", "entropi"], "unknown policy 'entropi'"),
        (["--policy", "none", "--policy", "none"], "asked for twice: none"),
        (["--rule", "policy=d2"], "policy has an option of its own, --policy"),
        (["--tasks", ","], "give at least one task"),
        (["--input", str(DATA / "prompts.jsonl"), "--shots", "3"], "has no --tasks, --count"),
        (["--policy", "d2", "scaling"], "stands before scaling; put it behind"),
        (["--rule", "threshold=2"], "threshold must be"),
        (["--policy", "dkv-greedy"], "needs an order drawn in advance"),
        (["--tasks", "sudoku"], "unknown task 'sudoku'"),
        (["--model", str(DATA / "nowhere")], "nowhere"),
        (["--output", "/proc/none"], "cannot be made"),
    ],
)
def test_mistakes_are_told_before_anything_is_decoded(options, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(comparison, "_decoded", lambda *_: pytest.fail("decoded"))
    shown = CliRunner().invoke(app, ["bench", "--count", "2", *options])
    assert shown.exit_code != 0
    assert said in str(shown.exception)


def test_attribution_from_the_command_line(tmp_path):
    out = tmp_path / "out"
    command = ["bench", "attribution", "--count", "1", "--tasks", "aiw", "--gen-length", "32"]
    shown = CliRunner().invoke(app, [*command, "--output", str(out)])
    assert shown.exit_code == 0, shown.output
    found = json.loads((out / "attribution_0-shot.json").read_text())["results"]
    assert list(found)[0] == "plain" and "all but the smaller head" in found
    assert found["plain"]["forwards"] == 32
    assert found["all together"]["forwards"] < 32
