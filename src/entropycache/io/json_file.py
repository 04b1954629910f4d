"""JSON files of a checkpoint: one object each, read whole, every way of being wrong told in a
sentence.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from entropycache.errors import CheckpointError


def read_object(path: Path) -> dict[str, Any]:
    """The object that a JSON file holds.

    Raises ``CheckpointError``, which starts with the path, where the file cannot be read, is not
    UTF-8, is not JSON, is nested too deeply, gives a key twice, or holds something else.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_unique)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from error
    except RecursionError as error:
        raise CheckpointError(f"{path}: not readable as JSON: nested too deeply") from error
    except ValueError as error:  # UnicodeDecodeError and JSONDecodeError among them
        raise CheckpointError(f"{path}: not readable as JSON: {error}") from error
    if not isinstance(found, dict):
        raise CheckpointError(f"{path}: must hold an object, not {type(found).__name__}")
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in found if keys.count(key) > 1)
        raise ValueError(f"key {twice!r} is given twice")
    return found
