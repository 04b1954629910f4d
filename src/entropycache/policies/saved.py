"""The policy that ``entropycache calibrate`` saved beside a model, known as ``calibrated``."""

from __future__ import annotations

import json
from pathlib import Path

from entropycache.errors import CheckpointError

SAVED = "entropycache.json"
CALIBRATED = "calibrated"


def saved_policy(folder: Path) -> str | None:
    """The spec saved in a model's folder; ``None`` where none is saved.

    Raises ``CheckpointError`` for a file that holds no spec.
    """
    path = folder / SAVED
    if not path.exists():
        return None
    try:
        spec = json.loads(path.read_text(encoding="utf-8"))["policy"]
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise CheckpointError(f"{path}: is not what calibrate saves: {error!r}") from error
    # ``calibrated`` here would name the file itself, without end.
    if not isinstance(spec, str) or spec.strip() == CALIBRATED:
        raise CheckpointError(f"{path}: policy must be a spec, not {spec!r}")
    return spec
