"""Cache policies by name, those of a user's own included.

Only ``import_policy`` imports code, for a name that a person typed on the command line. Files,
requests and library calls never lead there.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from entropycache.config.fields import Spec, build
from entropycache.errors import OptionError
from entropycache.io.user_code import imported
from entropycache.policies.base import Policy, PredictionRows, own_rows
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

    Raises ``OptionError`` for a class that is no policy, and for a name that is taken: results
    under one name stay comparable.
    """
    if name in POLICIES or name == CALIBRATED:
        raise OptionError(f"a policy named {name!r} is registered already")
    if not (isinstance(kind, type) and issubclass(kind, Policy) and dataclasses.is_dataclass(kind)):
        raise OptionError(
            f"policy {name!r} must be a dataclass that inherits from entropycache.policies.Policy, "
            f"not {kind!r}"
        )
    if kind.plan is Policy.plan:
        raise OptionError(f"policy {name!r}: {kind.__name__} defines no method plan")
    POLICIES[name] = kind


def make_policy(spec: str, prediction_rows: PredictionRows = own_rows) -> Policy:
    """A policy for one request, from a spec such as ``entropy:tau=1.0,k=64``.

    ``prediction_rows`` are those of the request's model. Raises ``OptionError`` for unknown names
    and options, and for values that are not accepted.
    """
    # The longest name wins: names of a user's own hold colons, as ``module:Class`` does.
    name = max((n for n in POLICIES if f"{spec.strip()}:".startswith(f"{n}:")), key=len, default="")
    if not name:
        raise OptionError(
            f"unknown policy {spec.partition(':')[0]!r}; known are {', '.join(sorted(POLICIES))}"
        )
    policy = build(POLICIES[name], Spec.parse(spec, name))
    policy.prediction_rows = prediction_rows
    return policy


def import_policy(spec: str) -> None:
    """Register the class of a spec such as ``my_policies:Mine:k=3`` under ``my_policies:Mine``.

    Other specs are left alone. Modules are found as Python finds them, and in the working folder.
    Raises ``OptionError`` where the module cannot be imported, and as ``register`` does.
    """
    match = re.match(r"([A-Za-z_][\w.]*):([A-Za-z_]\w*)(:|$)", spec.strip())
    if match is None or match[1] in POLICIES or f"{match[1]}:{match[2]}" in POLICIES:
        return
    module, name = match[1], match[2]
    kind: Any = imported(module, name, f"policy {spec!r}")
    if kind is None:
        raise OptionError(f"policy {spec!r}: {module} has no class named {name}")
    register(f"{module}:{name}", kind)
