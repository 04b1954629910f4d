"""The ``entropycache`` command: reads options and hands the work to other packages.

A user's mistake is answered with one line and exit status 2.
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
    show,
    train,
)
from entropycache.cli.app import app
from entropycache.errors import EntropyCacheError

__all__ = ["app", "main"]


def main() -> None:
    """Run the command line; an ``EntropyCacheError`` is printed as one line, with exit status 2."""
    # Threads of OpenMP that spin while they wait make two busy cores ten times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        app()
    except EntropyCacheError as error:
        print(f"entropycache: {error}", file=sys.stderr)
        sys.exit(2)
