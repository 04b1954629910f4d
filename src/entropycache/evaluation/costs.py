"""What a model kept of the requests that it answered, for whoever counts afterwards."""

from __future__ import annotations

from dataclasses import dataclass

from entropycache.config.generation import GenerationConfig
from entropycache.engine.output import Completion


@dataclass(frozen=True)
class Answer:
    """What one request of a task gave; ``wall`` are the seconds since the answer before it, so that
    sums of them are the time that decoding took, whatever the batch.
    """

    task: str
    doc: int
    config: GenerationConfig
    completion: Completion
    wall: float


@dataclass(frozen=True)
class Likelihood:
    """What one likelihood cost: full passes and seconds."""

    task: str
    doc: int
    passes: int
    wall: float
