"""Lines of a file, another process that writes to it, and the sentence of a refusal."""

from __future__ import annotations

import subprocess
import sys

import pytest

from entropycache.errors import OptionError
from entropycache.io.jsonl import JsonlWriter, read_lines

WRITE = """
import sys
from pathlib import Path
from entropycache.errors import OptionError
from entropycache.io.jsonl import JsonlWriter
"""


def values(path):
    return [value for _, value in read_lines(path)]


def child(code, path):
    done = subprocess.run(
        [sys.executable, "-c", WRITE + code, str(path)], check=True, capture_output=True, text=True
    )
    assert not done.stderr
    return done.stdout


def refused(path, name=None):
    with pytest.raises(OptionError) as found:
        JsonlWriter(path, name)
    assert "\n" not in str(found.value)
    return str(found.value)
