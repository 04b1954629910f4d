"""The recipe of the embedded model: its shape, its vocabulary, and the stages it was trained in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from entropycache.models.transformer import Shape
from entropycache.training.corpus import COPYING, TRAINING_SEEDS, Mixture, draw_chunk, texts
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

_FIRST = [name for name in TASKS if name != "needle_haystack"]
_WEIGHTS = dict.fromkeys(_FIRST, 0.2) | {
    "products": 2.0,
    "leg_counting": 2.0,
    "family_relationships": 2.0,
    "word_sequence_reversal": 2.0,
    "chain_sum": 1.5,
}
_DRILL = Mixture(_WEIGHTS | {COPYING: 4.0}, few_shot=0.0, long_tail=0.03)
_TASKS = Mixture(_WEIGHTS | {COPYING: 0.5}, few_shot=0.0, long_tail=0.03)
_DIFFUSION = Mixture(_WEIGHTS, few_shot=0.01, long_tail=0.15)
_FOCUS = dict.fromkeys(_FIRST, 0.1) | {
    "family_relationships": 3.0,
    "products": 2.5,
    "leg_counting": 2.5,
    "chain_sum": 2.0,
    "word_sequence_reversal": 1.0,
    "simple_equations": 0.3,
}
_LOOKUP = dict.fromkeys(TASKS, 0.1) | {
    "family_relationships": 3.0,
    "word_sequence_reversal": 3.0,
    "needle_haystack": 2.5,
    "leg_counting": 1.0,
    "products": 0.5,
    "chain_sum": 0.5,
}
_LAST = dict.fromkeys(TASKS, 0.1) | {
    "family_relationships": 4.0,
    "leg_counting": 2.5,
    "word_sequence_reversal": 1.5,
    "needle_haystack": 0.5,
    "products": 0.3,
    "chain_sum": 0.3,
}

STAGES = (
    Stage(0, _DRILL, (Objective.AUTOREGRESSIVE,)),
    Stage(800, _TASKS, (Objective.AUTOREGRESSIVE,)),
    Stage(1500, _DIFFUSION, (Objective.MASKED,)),
    Stage(
        2000,
        Mixture(_FOCUS | {COPYING: 0.5}, few_shot=0.005, long_tail=0.1),
        (Objective.AUTOREGRESSIVE, Objective.MASKED),
    ),
    Stage(
        2600,
        Mixture(_LOOKUP | {COPYING: 0.3}, few_shot=0.003, long_tail=0.1),
        (Objective.AUTOREGRESSIVE, Objective.MASKED),
    ),
    Stage(
        3000,
        Mixture(_LAST | {COPYING: 0.3}, few_shot=0.003, long_tail=0.1),
        (Objective.AUTOREGRESSIVE, Objective.MASKED),
    ),
    Stage(3300, Mixture(_LAST, few_shot=0.003, long_tail=0.2), (Objective.MASKED,)),
)


def vocabulary_texts() -> Iterator[str]:
    """What the tokenizer is trained on: 30,000 examples, the word problems three times as often."""
    weights = {name: 3.0 if name == "gsm_symbolic" else 1.0 for name in _FIRST}
    yield from texts(list(draw_chunk(Mixture(weights), 0, 30_000, TRAINING_SEEDS)))


def further(steps: int, decay: int, seed: int = 0) -> TrainConfig:
    """The settings of a run that goes on from trained weights: the last stage alone."""
    stage = replace(STAGES[-1], from_step=0)
    return TrainConfig(SHAPE, (stage,), steps, decay=decay, batch_tokens=4096, seed=seed)


def recipe(steps: int, decay: int, seed: int = 0) -> TrainConfig:
    """The settings of a run of ``steps`` optimiser steps whose last ``decay`` lower the rate."""
    return TrainConfig(SHAPE, STAGES, steps, decay=decay, batch_tokens=4096, seed=seed)
