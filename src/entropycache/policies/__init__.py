"""Cache policies by name."""

from __future__ import annotations

from entropycache.errors import OptionError
from entropycache.policies.base import Policy, Sources
from entropycache.policies.entropy import EntropyCache
from entropycache.policies.none import NoCache
from entropycache.specs import Spec, build

POLICIES: dict[str, type[Policy]] = {"none": NoCache, "entropy": EntropyCache}


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


__all__ = ["POLICIES", "EntropyCache", "NoCache", "Policy", "Sources", "make_policy"]
