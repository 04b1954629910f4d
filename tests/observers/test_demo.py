"""The demonstration solves its problems in three ways and says whose the gain is."""

from __future__ import annotations

import re

from typer.testing import CliRunner

from entropycache.cli import app
from entropycache.observers import demo


def test_the_demo_tells_the_gain_of_the_rules_from_that_of_the_cache(monkeypatch):
    monkeypatch.setattr(demo, "GEN_LENGTH", 40)
    monkeypatch.setattr(demo, "PROBLEMS", demo.PROBLEMS[:1])
    shown = CliRunner().invoke(app, ["demo"], env={"COLUMNS": "120"})
    assert shown.exit_code == 0, shown.output
    rows = re.findall(
        r"│ (\S.*?) +│ +1 of 1 │ +(\d+) │.*?│ +(\d+) │ +(\d+) │ +(\d+) │", shown.output
    )
    assert [name for name, *_ in rows] == ["plain decoding", "same rules, no cache", "entropy"]
    passes, full = ([int(row[i]) for row in rows] for i in (2, 3))
    assert passes[0] == full[0] == 40 and passes[1] == full[1] < 40 and full[2] < passes[2]
    speeds = [int(row[1]) for row in rows]
    assert speeds[0] > 0
    assert re.search(r"x comes from several tokens a step and early stop", shown.output)
    computed = [int(row[4]) for row in rows]
    assert computed[0] > computed[1] > computed[2]
