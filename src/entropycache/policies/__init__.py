"""Cache policies: the positions that each pass recomputes. ``register`` adds one of your own."""

from entropycache.policies.base import Policy
from entropycache.policies.entropy import EntropyCache
from entropycache.policies.none import NoCache
from entropycache.policies.registry import POLICIES, make_policy, register

__all__ = ["POLICIES", "EntropyCache", "NoCache", "Policy", "make_policy", "register"]
