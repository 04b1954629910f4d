"""``entropycache analyze``: one page that needs nothing else, and mistakes told."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from entropycache.bench import ablations
from entropycache.cli import app


def test_analyze_writes_one_page_that_needs_nothing_else(tmp_path):
    out = tmp_path / "out"
    command = ["analyze", "--count", "2", "--tasks", "products", "--gen-length", "40"]
    shown = CliRunner().invoke(app, [*command, "--output", str(out)])
    assert shown.exit_code == 0, shown.output
    page = (out / "report.html").read_text()
    assert page.count("data:image/png;base64,") == len(list(out.glob("*.png"))) == 6
    assert "http" not in page.replace("http-equiv", "")
    data = json.loads((out / "analysis.json").read_text())
    assert data["correlation"]["points"] >= 10 and len(data["ablations"]) > 30
    assert [r["x"] for r in data["ablations"] if r["curve"] == "k"] == list(ablations.KS)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["analyze", "--policy", "none"], "--policy has no meaning here"),
        (["calibrate", "--policy", "none"], "--policy has no meaning here"),
        (["analyze", "--part", "drifts"], "--part must be drift or ablations, not 'drifts'"),
        (["calibrate", "--target-agreement", "2"], "target agreement must be above 0"),
        (["analyze", "--tasks", "sudoku"], "unknown task 'sudoku'"),
    ],
)
def test_mistakes_are_told(command, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code != 0 and said in str(shown.exception)
