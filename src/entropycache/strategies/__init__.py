"""Decoding strategies: which masked positions may be committed, and which of them are."""

from __future__ import annotations

from entropycache.config import GenerationConfig
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
    "make_strategy",
]


def make_strategy(config: GenerationConfig) -> Strategy:
    """The window rule and commit rule that the options name, fresh for one request."""
    windows: WindowRule = Sliding(config.window or config.DEFAULT_WINDOW)
    if config.block_length:
        windows = Block(config.block_length)
    if config.tokens_per_step:
        return Strategy(windows, PerStep(config.tokens_per_step))
    if config.steps:
        return Strategy(windows, Schedule(config.steps // config.blocks))
    if config.factor:
        return Strategy(windows, Factor(config.factor))
    return Strategy(windows, Threshold(config.threshold or config.DEFAULT_THRESHOLD))
