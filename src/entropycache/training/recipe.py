"""The recipe of the embedded model: its shape, its vocabulary, and the stages it was trained in."""

from __future__ import annotations

from collections.abc import Iterator

from entropycache.models.transformer import Shape
from entropycache.training.corpus import (
    COPYING,
    FACTS,
    TRAINING_SEEDS,
    Mixture,
    draw_chunk,
    texts,
)
from entropycache.training.objective import Objective
from entropycache.training.settings import Stage, TrainConfig
from entropycache.training.tasks import TASKS

VOCABULARY = 2048
SHAPE = Shape(
    width=384,
    layers=6,
    heads=6,
    kv_heads=6,
    head_dim=64,
    mlp_width=1024,
    vocab_size=VOCABULARY,
    norm_eps=1e-5,
    rope_theta=10000.0,
    max_positions=4096,
    tied_head=True,
)

_WEIGHTS = {
    "products": 3.0,
    "leg_counting": 1.2,
    "family_relationships": 0.8,
    "chain_sum": 0.8,
    "aiw": 0.4,
    "simple_equations": 0.1,
    "word_sequence_reversal": 0.1,
    "gsm_symbolic": 0.05,
}
_FORMS = (Objective.AUTOREGRESSIVE, Objective.MASKED)


def _mixture(facts: float, copying: float, long_tail: float) -> Mixture:
    drills = {name: weight for name, weight in ((FACTS, facts), (COPYING, copying)) if weight}
    return Mixture(_WEIGHTS | drills, few_shot=0.0, long_tail=long_tail)


STAGES = (
    Stage(0, _mixture(2.0, 8.0, 0.02), (Objective.AUTOREGRESSIVE,)),
    Stage(800, _mixture(2.0, 0.5, 0.02), (Objective.AUTOREGRESSIVE,)),
    Stage(2000, _mixture(2.0, 0.1, 0.05), _FORMS),
    Stage(3000, _mixture(2.0, 0.0, 0.08), (Objective.MASKED,)),
)
"""A run from random weights: copying first, then the warm start, both forms in turn, and masked
diffusion alone while the rate falls.
"""
_FURTHER_WEIGHTS = {
    "products": 2.0,
    "leg_counting": 1.0,
    "family_relationships": 2.5,
    "chain_sum": 1.5,
    "aiw": 0.6,
    "simple_equations": 1.2,
}
_HARDER = {"word_sequence_reversal": 0.6, "gsm_symbolic": 0.4}
_LESS_OF_THEM = {"word_sequence_reversal": 0.3, "gsm_symbolic": 0.15}
_IN_TURN = (Objective.AUTOREGRESSIVE, Objective.MASKED_INVERSE)
FURTHER = (
    Stage(
        0,
        Mixture(
            _FURTHER_WEIGHTS | _HARDER | {FACTS: 2.5, COPYING: 0.2}, few_shot=0.15, long_tail=0.06
        ),
        _IN_TURN,
    ),
    Stage(
        300,
        Mixture(_FURTHER_WEIGHTS | _LESS_OF_THEM | {FACTS: 2.5}, few_shot=0.08, long_tail=0.06),
        _IN_TURN,
    ),
    Stage(
        1140,
        Mixture(_FURTHER_WEIGHTS | _LESS_OF_THEM | {FACTS: 2.0}, few_shot=0.08, long_tail=0.08),
        (Objective.MASKED_INVERSE,),
    ),
)
"""A run that goes on from trained weights: the last one made, 1,740 steps with a decay of 600."""


def vocabulary_texts() -> Iterator[str]:
    """What the tokenizer is trained on: 30,000 examples, the word problems three times as often."""
    weights = {name: 3.0 if name == "gsm_symbolic" else 1.0 for name in TASKS}
    yield from texts(list(draw_chunk(Mixture(weights), 0, 30_000, TRAINING_SEEDS)))


def further(steps: int, decay: int, seed: int = 0) -> TrainConfig:
    """The settings of a run that goes on from trained weights, with a short warm-up."""
    return _settings(FURTHER, steps, decay, seed, warmup=30)


def recipe(steps: int, decay: int, seed: int = 0) -> TrainConfig:
    """The settings of a run of ``steps`` optimiser steps whose last ``decay`` lower the rate."""
    return _settings(STAGES, steps, decay, seed, warmup=100)


def _settings(
    stages: tuple[Stage, ...], steps: int, decay: int, seed: int, warmup: int
) -> TrainConfig:
    return TrainConfig(
        SHAPE, stages, steps, warmup, decay, batch_tokens=4096, chunk_examples=1024, seed=seed
    )
