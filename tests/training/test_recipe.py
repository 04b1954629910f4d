"""Recipes: each can be named on the command line and teaches all tasks."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

pytest.importorskip("reasoning_gym")

from entropycache.cli import app
from entropycache.training import command
from entropycache.training.recipe import RECIPES
from entropycache.training.tasks import TASKS


def test_every_recipe_can_be_named_on_the_command_line_and_teaches_all_tasks(monkeypatch, tmp_path):
    given = []
    monkeypatch.setattr(command, "train", lambda folder, settings, *rest: given.append(settings))
    for name, settings in RECIPES.items():
        options = ["--output", str(tmp_path), "--steps", "50", "--decay", "20", "--recipe", name]
        assert CliRunner().invoke(app, ["train", *options]).exit_code == 0
        assert given[-1] == settings(steps=50, decay=20, seed=0)
        assert all(set(TASKS) <= set(stage.mixture.weights) for stage in given[-1].stages)
    refused = CliRunner().invoke(app, ["train", "--output", str(tmp_path), "--recipe", "best"])
    assert refused.exit_code == 2 and len(given) == len(RECIPES)
