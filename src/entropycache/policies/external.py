"""Policies of the user's own, named as ``module:Class`` on the command line.

Only what a person typed comes here: no file, no request and no library call imports code.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any, cast

from entropycache.errors import OptionError
from entropycache.imports import imported
from entropycache.policies import POLICIES, Policy, register


def import_policy(spec: str) -> None:
    """Register the class of a spec such as ``my_policies:Mine:k=3`` under ``my_policies:Mine``;
    other specs are left alone. Modules are found as Python finds them, and in the working folder.
    """
    found = re.match(r"([A-Za-z_][\w.]*):([A-Za-z_]\w*)(:|$)", spec.strip())
    if found is None or found[1] in POLICIES or f"{found[1]}:{found[2]}" in POLICIES:
        return
    module, name = found[1], found[2]
    kind: Any = imported(module, name, f"policy {spec!r}")
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        raise OptionError(f"policy {spec!r}: {module} has no dataclass named {name}")
    missing = [m for m in ("plan", "observe") if not callable(getattr(kind, m, None))]
    if missing:
        raise OptionError(f"policy {spec!r}: {name} lacks the method {missing[0]}")
    register(f"{module}:{name}", cast("type[Policy]", kind))
