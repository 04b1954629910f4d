"""Decoding options: every setting of a run is an option."""

from __future__ import annotations

from dataclasses import fields

import typer

from entropycache import GenerationConfig
from entropycache.cli import app
from tests.cli.tools import run


def test_every_setting_is_an_option():
    names = [item.name for item in fields(GenerationConfig)]
    command = typer.main.get_command(app).commands["generate"]
    options = {name for parameter in command.params for name in parameter.opts}
    assert {"--" + name.replace("_", "-") for name in names} < options
    assert run("generate", "--help").exit_code == 0
