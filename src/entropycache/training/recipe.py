"""The recipe of the embedded model: its shape, its vocabulary and the stages of its training."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from entropycache.models.config import ModelConfig
from entropycache.training.corpus import TRAINING_SEEDS, Mixture, draw_chunk, texts
from entropycache.training.drills import COPYING, FACTS, SHEETS, VALUES
from entropycache.training.objective import Objective
from entropycache.training.settings import Stage, TrainConfig
from entropycache.training.tasks import TASKS

VOCABULARY = 2048
SHAPE = ModelConfig(
    hidden_size=384,
    num_hidden_layers=6,
    num_attention_heads=6,
    num_key_value_heads=6,
    head_dim=64,
    intermediate_size=1024,
    vocab_size=VOCABULARY,
    rms_norm_eps=1e-5,
    rope_theta=10000.0,
    max_position_embeddings=4096,
    tie_word_embeddings=True,
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


_SCRATCH = (
    Stage(0, _mixture(2.0, 8.0, 0.02), (Objective.AUTOREGRESSIVE,)),
    Stage(800, _mixture(2.0, 0.5, 0.02), (Objective.AUTOREGRESSIVE,)),
    Stage(2000, _mixture(2.0, 0.1, 0.05), _FORMS),
    Stage(3000, _mixture(2.0, 0.0, 0.08), (Objective.MASKED,)),
)
_LAST = {
    "gsm_symbolic": 6.0,
    "family_relationships": 1.6,
    "word_sequence_reversal": 1.4,
    "simple_equations": 1.3,
    "chain_sum": 0.9,
    "leg_counting": 0.8,
    "products": 0.4,
    "aiw": 0.3,
    SHEETS: 1.0,
    VALUES: 0.25,
    COPYING: 0.1,
}
_NEXT_AND_AHEAD = (
    *(Objective.AUTOREGRESSIVE, Objective.CONTINUATION) * 3,
    Objective.PREFIX,
    Objective.MASKED_INVERSE,
)
_FURTHER = (
    Stage(
        0,
        Mixture(_LAST, few_shot=0.03, long_tail=0.1, brevity=80.0),
        _NEXT_AND_AHEAD,
        rate=1e-3,
        far_sharpness=2.8,
    ),
)


RECIPES = {
    "scratch": partial(TrainConfig, SHAPE, _SCRATCH, warmup=100, batch_tokens=4096),
    "further": partial(TrainConfig, SHAPE, _FURTHER, warmup=20, parts=8),
}
"""Settings of a run by name, all but ``steps``, ``seed`` and ``decay``, the number of steps at the
end over which the rate falls.

``scratch`` starts from random weights: copying first, then the warm start, then both forms in turn,
and masked diffusion alone while the rate falls. ``further`` starts from trained weights. Three
quarters of its batches ask for the next token with all before it known, half of these on a canvas
whose masks are seen. A quarter teaches how sure to be of positions further off, by which decoding
chooses its order. Short answers come more often than long ones, and a step has batches of several
lengths. The last run was 780 steps of ``further`` with a decay of 760.
"""


def vocabulary_texts() -> Iterator[str]:
    """Yield the tokenizer's training texts: 30,000 examples, word problems three times as often."""
    weights = {name: 3.0 if name == "gsm_symbolic" else 1.0 for name in TASKS}
    yield from texts(list(draw_chunk(Mixture(weights), 0, 30_000, TRAINING_SEEDS)))
