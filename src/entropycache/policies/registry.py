"""Cache policies by name, those of a user's own included.

Code is imported only for a name that a person typed: no file, no request and no library call does.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any, cast

from entropycache.config.specs import Spec, build
from entropycache.errors import OptionError
from entropycache.io.user_code import imported
from entropycache.policies.base import Policy, Sources, UsesSources, own_rows
from entropycache.policies.d2 import D2Cache
from entropycache.policies.dkv import DKVDecode, DKVGreedy
from entropycache.policies.dllm import DLLMCache
from entropycache.policies.elastic import ElasticCache
from entropycache.policies.entropy import EntropyCache
from entropycache.policies.fast import FastDual, FastPrefix
from entropycache.policies.none import NoCache
from entropycache.policies.saved import CALIBRATED

POLICIES: dict[str, type[Policy]] = {
    "none": NoCache,
    "entropy": EntropyCache,
    "fast-prefix": FastPrefix,
    "fast-dual": FastDual,
    "d2": D2Cache,
    "elastic": ElasticCache,
    "dkv-decode": DKVDecode,
    "dkv-greedy": DKVGreedy,
    "dllm": DLLMCache,
}


def register(name: str, kind: type[Policy]) -> None:
    """Make a policy of your own known by name; ``kind`` is a dataclass, its fields the options.

    A name that is taken raises ``OptionError``: results under one name stay comparable.
    """
    if name in POLICIES or name == CALIBRATED:
        raise OptionError(f"a policy named {name!r} is registered already")
    POLICIES[name] = kind


def make_policy(spec: str, sources: Sources = own_rows) -> Policy:
    """A fresh policy from a spec such as ``entropy:tau=1.0,k=64``, for a model with these
    ``sources``; unknown names and options are errors.
    """
    name = max((n for n in POLICIES if f"{spec.strip()}:".startswith(f"{n}:")), key=len, default="")
    if not name:
        raise OptionError(
            f"unknown policy {spec.partition(':')[0]!r}; known are {', '.join(sorted(POLICIES))}"
        )
    policy = build(POLICIES[name], Spec.parse(spec, name))
    if isinstance(policy, UsesSources):
        policy.sources = sources
    return policy


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
