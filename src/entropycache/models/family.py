"""The differences between model families: config keys, weight names, and prediction rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from entropycache.core.steps import Positions
from entropycache.io.tokenizer import SpecialTokens
from entropycache.models.config import ModelConfig


@dataclass(frozen=True)
class WeightNames:
    """The names of a family's weights in its checkpoints.

    ``{}`` stands for the number of the layer. ``qkv`` and ``gate_up`` list the parts of a fused
    matrix in order.
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
    """One model family, complete enough to load its checkpoints and decode with them.

    ``architectures`` are the names by which a ``config.json`` tells the family; ``published`` are
    the checkpoints that the docs list. ``read_config`` reads a checkpoint's config and raises
    ``CheckpointError`` for a variant that is not supported. ``fixed`` are keys of which only the
    values listed are implemented, the first being the default. ``idle`` are keys without effect on
    inference, beside those of every family. ``prediction_rows`` maps positions to the rows whose
    logits predict them, ``(n,) -> (n,)``.
    """

    model_type: str
    architectures: tuple[str, ...]
    published: tuple[str, ...]
    read_config: Callable[[Mapping[str, Any]], ModelConfig]
    names: WeightNames
    prediction_rows: Callable[[Positions], Positions]
    special: SpecialTokens
    fixed: Mapping[str, tuple[Any, ...]] = field(default_factory=dict, hash=False)
    idle: frozenset[str] = frozenset()

    def weight_sizes(self, model: ModelConfig) -> dict[str, tuple[int, ...]]:
        """The size of every weight of a checkpoint by its name, that of a tied head included."""
        names, hidden, inner = self.names, model.hidden_size, model.intermediate_size
        q, kv = model.query_size, model.key_size
        layer: dict[str, tuple[int, ...]] = dict(
            zip(names.qkv, [(q, hidden), (kv, hidden), (kv, hidden)], strict=True)
        )
        if model.attention_bias:
            layer |= dict(zip(names.qkv_bias, [(q,), (kv,), (kv,)], strict=True))
        layer |= {names.attn_norm: (hidden,), names.mlp_norm: (hidden,)}
        layer |= {names.out: (hidden, q), names.down: (hidden, inner)}
        layer |= dict.fromkeys(names.gate_up, (inner, hidden))
        sizes = {
            name.format(i): size
            for i in range(model.num_hidden_layers)
            for name, size in layer.items()
        }
        vocabulary = (model.vocab_size, hidden)
        return sizes | {
            names.embedding: vocabulary,
            names.norm: (hidden,),
            names.head: vocabulary,
        }
