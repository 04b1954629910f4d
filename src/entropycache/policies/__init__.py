"""Cache policies by name."""

from __future__ import annotations

from entropycache.errors import OptionError
from entropycache.policies.base import Policy, Sources, UsesSources, own_rows
from entropycache.policies.d2 import D2Cache
from entropycache.policies.dkv import DKVDecode, DKVGreedy
from entropycache.policies.dllm import DLLMCache
from entropycache.policies.elastic import ElasticCache
from entropycache.policies.entropy import EntropyCache
from entropycache.policies.fast import FastDual, FastPrefix
from entropycache.policies.none import NoCache
from entropycache.policies.saved import CALIBRATED
from entropycache.specs import Spec, build

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


__all__ = ["POLICIES", "EntropyCache", "NoCache", "Policy", "make_policy", "register"]
