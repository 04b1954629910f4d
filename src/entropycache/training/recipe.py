"""The recipe of the embedded model: its shape, its vocabulary, and the stages it was trained in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from entropycache.models.transformer import Shape
from entropycache.training.corpus import TRAINING_SEEDS, Mixture, draw_chunk, texts
from entropycache.training.drills import COPYING, FACTS, KIN, SHEETS, VALUES
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


_SCRATCH = (
    Stage(0, _mixture(2.0, 8.0, 0.02), (Objective.AUTOREGRESSIVE,)),
    Stage(800, _mixture(2.0, 0.5, 0.02), (Objective.AUTOREGRESSIVE,)),
    Stage(2000, _mixture(2.0, 0.1, 0.05), _FORMS),
    Stage(3000, _mixture(2.0, 0.0, 0.08), (Objective.MASKED,)),
)
_LOOKING_UP = {
    "gsm_symbolic": 4.2,
    "word_sequence_reversal": 1.2,
    "family_relationships": 0.9,
    "simple_equations": 0.8,
    "aiw": 0.5,
    "chain_sum": 0.4,
    "leg_counting": 0.4,
    "products": 0.3,
    VALUES: 1.8,
    KIN: 1.2,
    SHEETS: 0.8,
    COPYING: 0.5,
}
_DRILLED = {
    "gsm_symbolic": 2.0,
    "word_sequence_reversal": 2.0,
    "family_relationships": 0.4,
    "simple_equations": 0.3,
    "aiw": 0.3,
    "chain_sum": 0.3,
    "leg_counting": 0.3,
    "products": 0.2,
    VALUES: 4.0,
    KIN: 2.0,
    SHEETS: 0.6,
    COPYING: 3.0,
}
_VALUES_MOST = {VALUES: 5.0, COPYING: 2.0}
_BALANCE = {
    "gsm_symbolic": 5.0,
    "word_sequence_reversal": 1.1,
    "family_relationships": 1.9,
    "simple_equations": 0.9,
    "aiw": 0.5,
    "chain_sum": 0.5,
    "leg_counting": 0.5,
    "products": 0.4,
    VALUES: 0.9,
    SHEETS: 0.9,
    COPYING: 0.3,
}
_LAST = {
    "family_relationships": 1.6,
    "word_sequence_reversal": 1.3,
    "simple_equations": 1.0,
    "aiw": 0.6,
    "chain_sum": 0.6,
    VALUES: 0.5,
    COPYING: 0.2,
}
_NEXT, _ON = Objective.AUTOREGRESSIVE, Objective.CONTINUATION
_AHEAD = (Objective.PREFIX, Objective.MASKED_INVERSE)
_EVENLY = (*(_NEXT, _ON) * 3, *_AHEAD)
_MOSTLY_NEXT = (*[_NEXT] * 5, _ON, *_AHEAD)


def _stage(
    from_step: int,
    weights: Mapping[str, float],
    objectives: tuple[Objective, ...],
    few_shot: float = 0.03,
    long_tail: float = 0.06,
    rate: float = 1.3e-3,
) -> Stage:
    mixture = Mixture(weights, few_shot, long_tail=long_tail, brevity=80.0)
    return Stage(from_step, mixture, objectives, rate, far_sharpness=2.2)


_FURTHER = (
    _stage(0, _LOOKING_UP, _EVENLY),
    _stage(150, _DRILLED, (_NEXT,), few_shot=0.0, long_tail=0.0),
    _stage(200, _DRILLED | _VALUES_MOST, (_NEXT,), few_shot=0.0, long_tail=0.0, rate=1.8e-3),
    _stage(350, _BALANCE | {"family_relationships": 0.9, KIN: 0.9}, _MOSTLY_NEXT),
    _stage(500, _BALANCE, _MOSTLY_NEXT),
    _stage(750, _BALANCE | _LAST, _EVENLY, long_tail=0.1),
)


RECIPES = {
    "scratch": partial(TrainConfig, SHAPE, _SCRATCH, warmup=100, batch_tokens=4096),
    "further": partial(TrainConfig, SHAPE, _FURTHER, warmup=20, parts=8),
}
"""The settings of a run but for ``steps``, ``decay`` (the last steps, which lower the rate) and
``seed``.

``scratch`` is from random weights: copying first, then the warm start, both forms in turn, and
masked diffusion alone while the rate falls. ``further`` goes on from trained weights: drills in
looking things up, then mostly what comes next, all before it known, in part on a canvas whose masks
are seen; a quarter how sure to be of what lies further off, by which decoding chooses its order;
short answers more often than long ones, and batches of several lengths a step. The last run was
1,240 steps of it with a decay of 690.
"""


def vocabulary_texts() -> Iterator[str]:
    """What the tokenizer is trained on: 30,000 examples, the word problems three times as often."""
    weights = {name: 3.0 if name == "gsm_symbolic" else 1.0 for name in TASKS}
    yield from texts(list(draw_chunk(Mixture(weights), 0, 30_000, TRAINING_SEEDS)))
