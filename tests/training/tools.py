"""A small network's shape, a batch for it, and the value of a written calculation."""

from __future__ import annotations

import re
from fractions import Fraction

import torch

from entropycache.models.config import ModelConfig
from entropycache.training.objective import Batch

SHAPE = ModelConfig(32, 2, 2, 2, 16, 64, 2048, 1e-5, 10000.0, 2048)
MASK = 1


def value(calculation: str) -> Fraction:
    return eval(re.sub(r"\d+(\.\d+)?", r'Fraction("\g<0>")', calculation))


def some_batch(count: int = 6, length: int = 64) -> Batch:
    """Each sequence a short prompt and answer, then another prompt and the answer to learn."""
    generator = torch.Generator().manual_seed(5)
    ids = torch.randint(10, 2048, (count, length), generator=generator)
    answers = torch.zeros_like(ids)
    for i, start in enumerate(torch.randint(33, 50, (count,), generator=generator).tolist()):
        answers[i, 12:20] = 2 * i + 1
        answers[i, start:] = 2 * i + 2
    return Batch(ids, answers)
