"""The examples of models and traces run as they stand. That of a policy is tested with policies."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


def shown(name: str, folder: Path) -> str:
    """The output of an example that is started from another folder."""
    path = next(path for path in EXAMPLES if path.name == name)
    command = [sys.executable, str(path)]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=folder, timeout=300
    ).stdout


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_short(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) < 80


def test_a_family_of_ones_own_is_loaded_by_its_architecture_and_decodes(tmp_path):
    lines = shown("custom_model.py", tmp_path).splitlines()
    found = {}
    for line in lines:
        policy, passes, full, ids = re.match(
            r"(\S+) +(\d+) passes, +(\d+) full: (\[.*\])$", line
        ).groups()
        found[policy] = int(passes), int(full), ast.literal_eval(ids)
    assert list(found) == ["none", "entropy:tau=-1", "entropy:tau=5"]
    passes, full, ids = found["none"]
    assert full == passes and len(ids) == 24 and all(0 <= i < 127 for i in ids)
    assert found["entropy:tau=-1"] == found["none"], "always full is no cache"
    assert found["entropy:tau=5"][1] == 1, "nothing is as uncertain as 5 nats"
    assert not list(tmp_path.iterdir())


def test_a_trace_is_read_step_by_step_and_gives_the_answer_back(tmp_path, tiny):
    *steps, rebuilt, decoded = shown("read_trace.py", tmp_path).splitlines()
    question = [{"role": "user", "content": "Solve for t: 3*t = 12"}]
    frames = list(tiny.stream(question, policy="entropy:tau=0.1"))
    reasons = [str(frame.step.plan.reason) for frame in frames]
    assert set(reasons) == {"first", "stale", "partial"}
    assert [line.split()[:2] for line in steps] == [[str(i), r] for i, r in enumerate(reasons)]
    for line, frame in zip(steps, frames, strict=True):
        counts = [int(n) for n in re.findall(r"(\d+) (?:prompt|committed|masked)", line)]
        assert sum(counts) == len(frame.step.rows)
        assert counts[0] == sum(frame.step.rows < frame.start)
    assert rebuilt.removeprefix("rebuilt: ") == decoded.removeprefix("decoded: ")
    answer = ast.literal_eval(decoded.removeprefix("decoded: "))
    assert answer == tiny.generate(question, policy="entropy:tau=0.1").text
