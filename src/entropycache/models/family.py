"""What tells one model family from another: config keys, weight names, and the row a position is
predicted from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from entropycache.core.steps import Positions
from entropycache.io.tokenizer import SpecialTokens
from entropycache.models.config import ModelConfig


@dataclass(frozen=True)
class WeightNames:
    """Checkpoint names; ``{}`` stands for the layer. ``qkv`` and ``gate_up`` list the parts of a
    fused matrix in order.
    """

    embedding: str
    attn_norm: str
    qkv: tuple[str, str, str]
    qkv_bias: tuple[str, ...]
    out: str
    mlp_norm: str
    gate_up: tuple[str, str]
    down: str
    norm: str
    head: str


@dataclass(frozen=True)
class Family:
    """A model family. ``architectures`` are the names by which ``config.json`` tells it; among its
    ``published`` checkpoints are those that the docs list.

    ``read_config`` reads a checkpoint's config and raises ``CheckpointError`` for a variant that is
    not supported. ``prediction_rows`` maps positions to the rows whose logits predict them.
    """

    model_type: str
    architectures: tuple[str, ...]
    published: tuple[str, ...]
    read_config: Callable[[Mapping[str, Any]], ModelConfig]
    names: WeightNames
    prediction_rows: Callable[[Positions], Positions]
    special: SpecialTokens
