"""Decoding strategies: the window of masks that may be committed, their order, and their number."""

from __future__ import annotations

from entropycache.config.generation import GenerationConfig
from entropycache.config.sampling import DreamAlgorithm, Ranking
from entropycache.strategies.base import CommitRule, Order, Strategy, WindowRule
from entropycache.strategies.commits import (
    DreamOrigin,
    DreamSchedule,
    EntropyBound,
    Factor,
    PerStep,
    Schedule,
    Threshold,
)
from entropycache.strategies.orders import ByConfidence, LeftToRight, Noisy, Random
from entropycache.strategies.windows import Block, Sliding, WholeCanvas

__all__ = [
    "Block",
    "ByConfidence",
    "CommitRule",
    "DreamOrigin",
    "DreamSchedule",
    "EntropyBound",
    "Factor",
    "LeftToRight",
    "Noisy",
    "Order",
    "PerStep",
    "Random",
    "Schedule",
    "Sliding",
    "Strategy",
    "Threshold",
    "WholeCanvas",
    "WindowRule",
    "make_strategy",
]


def make_strategy(config: GenerationConfig) -> Strategy:
    """A strategy for one request, with the window rule, order and commit rule of the options.

    It must not be shared: some rules count the steps of their request.
    """
    return Strategy(_windows(config), _order(config), _commits(config))


def _windows(config: GenerationConfig) -> WindowRule:
    if config.block_length:
        return Block(config.block_length)
    if config.alg:
        return WholeCanvas()
    return Sliding(config.window or config.DEFAULT_WINDOW)


def _order(config: GenerationConfig) -> Order:
    if config.order is Ranking.RANDOM or config.alg is DreamAlgorithm.ORIGIN:
        return Random(config.seed)
    if config.order is Ranking.LEFT_TO_RIGHT:
        return LeftToRight()
    if config.alg_temp:
        return Noisy(config.alg_temp, config.seed)
    return ByConfidence(config.sigma)


def _commits(config: GenerationConfig) -> CommitRule:
    if config.alg is DreamAlgorithm.ORIGIN and config.steps:
        return DreamOrigin(config.steps, config.seed)
    if config.alg and config.steps:
        return DreamSchedule(config.steps)
    if config.tokens_per_step:
        return PerStep(config.tokens_per_step)
    if config.steps:
        return Schedule(config.steps // config.blocks)
    if config.factor:
        return Factor(config.factor)
    if config.eb_gamma is not None:
        return EntropyBound(config.eb_gamma)
    return Threshold(config.threshold or config.DEFAULT_THRESHOLD)
