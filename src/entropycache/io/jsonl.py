"""Files of one JSON object a line: read whole, and made ready to be appended to.

Lines end at a newline byte and nowhere else: a text may hold other characters that break lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from entropycache.errors import RecordError


def read_lines(path: Path, unfinished: bool = False) -> Iterator[tuple[int, Any]]:
    """Line numbers and parsed lines, empty ones left out.

    With ``unfinished``, a last line without its newline is taken for one that a kill cut short, and
    left out. Raises ``RecordError`` with the number of a line that is not JSON.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from error
    if unfinished:
        lines[-1] = b""
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except ValueError as error:
                raise RecordError(f"{path}, line {number}: not JSON: {error}") from error


def drop_unfinished_line(path: Path) -> None:
    """Cut off what stands behind the last newline, without touching what stands before it."""
    data = path.read_bytes()
    with path.open("r+b") as file:
        file.truncate(data.rfind(b"\n") + 1)
