"""The application: a user's mistake is one line and status 2, and help loads no torch."""

from __future__ import annotations

import subprocess
import sys

import pytest

from entropycache.cli import main


def test_the_entry_point_prints_one_line_and_exits_with_2(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["entropycache", "generate", "--prompt-ids", "x"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("entropycache: --prompt-ids") and captured.err.count("\n") == 1


def test_help_does_not_load_torch():
    code = "import sys; from entropycache.cli import app; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
