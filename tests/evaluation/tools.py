"""``entropycache eval`` in process, and its report without what differs between two runs."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from entropycache.cli import app
from entropycache.errors import EntropyCacheError
from tests.conftest import DATA

FAST = ["--gen-length", "32", "--threshold", "0.5", "--limit", "3", "--device", "cpu"]
LOCAL = DATA / "evaluation"
TIMES = ("seconds", "wall_seconds", "tokens_per_second", "canvas_tokens_per_second")


def run(*arguments: str):
    return CliRunner().invoke(app, ["eval", *arguments])


def refused(*arguments: str) -> str:
    found = run(*arguments)
    assert isinstance(found.exception, EntropyCacheError), found.output
    assert "\n" not in str(found.exception)
    return str(found.exception)


def measured(path: Path, *arguments: str) -> dict:
    found = run(*arguments, "--output", str(path))
    assert found.exit_code == 0, (found.output, found.exception)
    return json.loads(path.read_text())


def without_times(value):
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items() if k not in (*TIMES, "output")}
    return [without_times(v) for v in value] if isinstance(value, list) else value
