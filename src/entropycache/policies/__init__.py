"""Cache policies by name."""

from __future__ import annotations

from entropycache.errors import OptionError
from entropycache.policies.base import Policy
from entropycache.policies.entropy import EntropyCache
from entropycache.policies.none import NoCache
from entropycache.specs import Spec, build

POLICIES: dict[str, type[Policy]] = {"none": NoCache, "entropy": EntropyCache}


def register(name: str, kind: type[Policy]) -> None:
    """Make a policy of your own known by name; ``kind`` is a dataclass, its fields the options.

    A name that is taken raises ``OptionError``: results under one name stay comparable.
    """
    if name in POLICIES:
        raise OptionError(f"a policy named {name!r} is registered already")
    POLICIES[name] = kind


def make_policy(spec: str) -> Policy:
    """A fresh policy from a spec such as ``entropy:tau=1.0,k=64``; unknown names and options are
    errors.
    """
    parsed = Spec.parse(spec)
    if parsed.name not in POLICIES:
        raise OptionError(
            f"unknown policy {parsed.name!r}; known are {', '.join(sorted(POLICIES))}"
        )
    return build(POLICIES[parsed.name], parsed)


__all__ = ["POLICIES", "EntropyCache", "NoCache", "Policy", "make_policy", "register"]
