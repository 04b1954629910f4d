"""The settings of a training run, as saved beside its weights."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from entropycache.errors import OptionError
from entropycache.models.config import ModelConfig
from entropycache.training.corpus import Mixture
from entropycache.training.objective import Objective


@dataclass(frozen=True)
class Stage:
    """A mixture, objectives and a learning rate, used from the step ``from_step`` on."""

    from_step: int
    mixture: Mixture
    objectives: tuple[Objective, ...] = (Objective.MASKED,)
    """Taken in turn, one for each batch."""
    rate: float = 2e-3
    far_sharpness: float = 1.0
    """Factor of the logits of masks behind other masks. Above 1 a network learns to be less sure of
    them than of the first mask, and decoding by confidence writes from the left where it matters.
    """


@dataclass(frozen=True)
class TrainConfig:
    """Everything that decides the weights of a run; saved beside them."""

    shape: ModelConfig
    stages: tuple[Stage, ...]
    steps: int
    warmup: int = 100
    decay: int = 1000
    weight_decay: float = 0.02
    batch_tokens: int = 8192
    """Rows of a step, both complementary masks counted."""
    parts: int = 1
    """Batches of a step, each of examples of similar length. Several of them mix lengths, and with
    these the wordings of questions, at no cost in padding.
    """
    chunk_examples: int = 1024
    seed: int = 0


def check_resumed(config: TrainConfig, path: Path) -> None:
    """Refuse to continue the run of the settings file ``path`` with another shape or seed.

    Steps, decay and stages may change. Raises ``OptionError``.
    """
    before = json.loads(path.read_text())
    if before["shape"] != asdict(config.shape) or before["seed"] != config.seed:
        raise OptionError(
            f"{path.parent}: this run was begun with another shape or seed ({before['seed']}); "
            "give another folder"
        )
