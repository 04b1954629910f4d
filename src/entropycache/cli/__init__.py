"""The ``entropycache`` command: options in, one line and status 2 for a user's mistake, work done
elsewhere.
"""

from __future__ import annotations

import os
import sys

from entropycache.cli import (  # noqa: F401 - each registers its commands
    analyze,
    bench,
    evaluate,
    generate,
    observe,
    serve,
    train,
)
from entropycache.cli.app import app
from entropycache.errors import EntropyCacheError

__all__ = ["app", "main"]


def main() -> None:
    """Entry point. OpenMP threads must not spin: two busy cores would run ten times slower."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        app()
    except EntropyCacheError as error:
        print(f"entropycache: {error}", file=sys.stderr)
        sys.exit(2)
