"""The command line in process, on the reference checkpoint."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from entropycache.cli import app
from entropycache.errors import EntropyCacheError
from tests.conftest import DATA

MODEL = ["--model", str(DATA / "llada"), "--dtype", "float64"]
FAST = ["--gen-length", "16", "--block-length", "8", "--tokens-per-step", "2", "--policy", "none"]


def run(*arguments: str, stdin: str | None = None):
    return CliRunner().invoke(app, list(arguments), input=stdin)


def refused(*arguments: str) -> str:
    """The message of a mistake: one line, through the entry point."""
    found = run(*arguments)
    assert isinstance(found.exception, EntropyCacheError), found.output
    return str(found.exception)


def write_records(path, *records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
