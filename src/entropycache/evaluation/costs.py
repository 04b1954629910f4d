"""Records of answered requests and their costs, from which a report is made."""

from __future__ import annotations

from dataclasses import dataclass

from entropycache.config.generation import GenerationConfig
from entropycache.engine.output import Completion


@dataclass(frozen=True)
class Answer:
    """The answer to one request of a task, the document ``doc``, and its cost.

    ``wall`` is the time in seconds since the answer before it. Answers of a batch overlap in time,
    but these intervals do not: their sum is the time that decoding took.
    """

    task: str
    doc: int
    config: GenerationConfig
    completion: Completion
    wall: float


@dataclass(frozen=True)
class Likelihood:
    """The cost of one likelihood: full passes, and ``wall`` time in seconds."""

    task: str
    doc: int
    passes: int
    wall: float
