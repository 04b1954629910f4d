"""What the README says is so."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
import types
from pathlib import Path

import pytest
import typer

from entropycache import policies
from entropycache.cli import app
from entropycache.errors import OptionError
from entropycache.models import FAMILIES
from entropycache.policies import registry
from entropycache.policies import table as policy_table

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_both_set_up_commands_stand_within_the_first_twenty_lines():
    top = README.splitlines()[:20]
    assert sum(line.startswith("$ pip install") for line in top) == 2


def test_the_table_of_models_is_the_registry():
    table = re.search(r"<!-- models -->\n(.*?)<!-- /models -->", README, re.S)[1]
    rows = [
        f"| `{f.model_type}` | {', '.join(f.published)} |" for f in dict.fromkeys(FAMILIES.values())
    ]
    assert table.splitlines() == ["| `model_type` | checkpoints |", "|---|---|", *rows]


def test_the_table_of_policies_is_the_registry():
    table = re.search(r"<!-- policies -->\n(.*?)\n<!-- /policies -->", README, re.S)[1]
    assert table == policy_table.markdown()


def test_every_command_shown_has_the_options_shown():
    root = typer.main.get_command(app)
    shown = re.findall(r"^\$ (?:.*&& )?entropycache (.+)$", README, re.M)
    assert len(shown) > 10
    for line in shown:
        words = shlex.split(line, comments=True)
        command = root
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        known = {name for p in command.params for name in (*p.opts, *p.secondary_opts)}
        asked = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert command is not root and asked <= known, line


def test_the_policy_example_runs(engines, monkeypatch):
    monkeypatch.setattr(registry, "POLICIES", dict(policies.POLICIES))
    code = next(c for c in re.findall(r"```python\n(.*?)```", README, re.S) if "register" in c)
    module = types.ModuleType("readme")
    monkeypatch.setitem(sys.modules, "readme", module)
    exec(compile(code, "README.md", "exec"), vars(module))
    done = engines("llada").generate([1, 2], policy="periodic:interval=4", gen_length=16)
    assert done.full_passes == -(-done.forwards // 4)
    with pytest.raises(OptionError, match="registered already"):
        policies.register("periodic", policies.NoCache)


def test_the_tables_are_those_of_the_committed_results():
    path = Path(__file__).parents[1] / "benchmarks" / "tables.py"
    spec = importlib.util.spec_from_file_location("tables", path)
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    for file in tables.SECTIONS:
        assert tables.filled(file) == file.read_text(encoding="utf-8")
