"""Code that a person names on the command line as ``module:name``."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from entropycache.errors import OptionError


def imported(module: str, name: str, what: str) -> Any:
    """What a module holds under a name, or ``None``. Modules are found as Python finds them, and in
    the working folder; ``what`` begins the message of the ``OptionError`` where one cannot be
    imported.
    """
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return getattr(importlib.import_module(module), name, None)
    except Exception as error:  # whatever the module's own code raises
        cause = f"{type(error).__name__}: {error}"
        raise OptionError(f"{what}: module {module} cannot be imported: {cause}") from error
