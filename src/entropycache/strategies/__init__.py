"""Decoding strategies: which masked positions may be committed, and which of them are."""

from entropycache.strategies.base import CommitRule, Strategy, WindowRule
from entropycache.strategies.commits import Factor, PerStep, Schedule, Threshold
from entropycache.strategies.windows import Block, Sliding

__all__ = [
    "Block",
    "CommitRule",
    "Factor",
    "PerStep",
    "Schedule",
    "Sliding",
    "Strategy",
    "Threshold",
    "WindowRule",
]
