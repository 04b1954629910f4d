"""Policies of a user's own, from Python and from the command line, and the list of all."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from typer.testing import CliRunner

from entropycache import GenerationConfig, policies
from entropycache.cli import app
from entropycache.cli.completions import read_prompts
from entropycache.errors import OptionError, RecordError
from entropycache.policies import table
from entropycache.policies.registry import import_policy
from tests.conftest import DATA


@dataclass
class Planless(policies.Policy):
    """A policy that forgot its method."""


EXAMPLE = Path(__file__).parents[2] / "examples" / "custom_policy.py"


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch):
    before = dict(policies.POLICIES)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    policies.POLICIES.clear()
    policies.POLICIES.update(before)


def test_the_example_is_short_and_runs(tmp_path):
    assert len(EXAMPLE.read_text().splitlines()) < 60
    shown = subprocess.run(
        [sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=True, cwd=tmp_path
    ).stdout
    passes = re.findall(r"^(\S+) +(\d+) passes, +(\d+) full", shown, re.M)
    assert [name for name, *_ in passes] == ["none", "entropy", "hesitant", "hesitant:below=0.5"]
    full = {name: int(number) for name, _, number in passes}
    assert full["hesitant:below=0.5"] <= full["hesitant"] <= full["none"]


def test_the_example_is_usable_from_the_command_line(monkeypatch):
    monkeypatch.chdir(EXAMPLE.parent)
    options = ["--model", str(DATA / "llada"), "--prompt-ids", "1 2 3", "--gen-length", "16"]
    options += ["--tokens-per-step", "1", "--json"]
    found = {}
    for spec in ("custom_policy:Hesitant:below=0", "custom_policy:Hesitant:below=2", "none"):
        shown = CliRunner().invoke(app, ["generate", *options, "--policy", spec])
        assert shown.exit_code == 0, shown.output
        found[spec[-1]] = json.loads(shown.output)
    assert (found["0"]["full_passes"], found["2"]["full_passes"]) == (1, found["2"]["forwards"])
    assert found["2"]["token_ids"] == found["e"]["token_ids"], "always full is no cache"


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("no_such_module:Mine", "No module named 'no_such_module'"),
        ("json:Mine", "json has no class named Mine"),
        ("json:JSONDecoder", "must be a dataclass that inherits from entropycache.policies.Policy"),
        ("entropycache.core.steps:Window:x=1", "must be a dataclass that inherits"),
        ("tests.policies.test_user_policies:Planless", "Planless defines no method plan"),
    ],
)
def test_what_is_no_policy_is_refused(spec, said):
    with pytest.raises(OptionError, match=said):
        import_policy(spec)


def test_a_policy_in_a_prompt_file_imports_nothing(tmp_path, monkeypatch):
    (tmp_path / "sneaky.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"id": 1, "prompt_ids": [1], "policy": "sneaky:Policy"}\n')
    with pytest.raises(RecordError, match="line 1: unknown policy 'sneaky'"):
        read_prompts(file, GenerationConfig())
    assert "sneaky" not in sys.modules


def test_a_module_that_cannot_be_imported_says_why(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "torn.py").write_text("def plan(:")
    (tmp_path / "lacking.py").write_text("from json import nothing_of_the_kind")
    for module, why in (("torn", "SyntaxError"), ("lacking", "ImportError: cannot import name")):
        with pytest.raises(OptionError, match=f"{module} cannot be imported: {why}"):
            import_policy(f"{module}:Policy")


def test_options_without_a_default_are_listed_as_required(monkeypatch):
    @dataclass
    class Demanding(policies.Policy):
        depth: int
        widths: list[int] = field(default_factory=list)

    assert table._row("demanding", Demanding)[1] == "depth (required), widths=…"


def test_specs_that_name_no_module_are_left_alone():
    before = dict(policies.POLICIES)
    for spec in ("entropy", "entropy:tau=1", "d2:variant=paper", "nonsense", "a:b=c"):
        import_policy(spec)
    assert before == policies.POLICIES


def test_the_list_names_every_policy_with_its_options_and_paper():
    shown = CliRunner().invoke(app, ["policies"]).output
    for name in policies.POLICIES:
        row = next(line for line in shown.splitlines() if line.startswith(f"| `{name}` |"))
        assert re.search(r"arXiv \d{4}\.\d{5}", row)
        assert row.count("|") == len(table.HEAD) + 1
    assert "`tau=1.0, k=64, signal=max`" in shown
    assert "`rollout_p=0.1, current_k=32, sigma=10.0, inflate_w=0, variant=released`" in shown
