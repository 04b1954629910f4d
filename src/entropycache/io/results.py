"""Result files: JSON with what it was measured on, CSV, pictures and pages."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from entropycache.errors import OptionError
from entropycache.io.environment import machine, versions


def make_folder(folder: Path) -> None:
    """The folder results go to; where it cannot be made, that is known before anything is run."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(f"--output {folder}: cannot be made: {error.strerror}") from error


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write a result with what it was measured on."""
    told = {"machine": machine(), "versions": versions(), **data}
    write_bytes(path, (json.dumps(told, indent=1, allow_nan=False) + "\n").encode())


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """One line a row; nested numbers become columns of their own."""
    flat = [_flat(row) for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    text = StringIO(newline="")
    writer = csv.DictWriter(text, names)
    writer.writeheader()
    writer.writerows(flat)
    write_bytes(path, text.getvalue().encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Write a picture or a page."""
    try:
        path.write_bytes(data)
    except OSError as error:
        raise OptionError(f"{path}: cannot be written: {error.strerror}") from error


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, Mapping):
            found |= {f"{key}_{k}": v for k, v in value.items()}
        elif isinstance(value, (list, tuple)):
            found |= {f"{key}_{i}": v for i, v in enumerate(value)}
        else:
            found[key] = value
    return found
