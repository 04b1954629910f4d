"""The numbers of a network, in one vocabulary for every model family."""

from __future__ import annotations

import dataclasses
import math
import typing
from dataclasses import dataclass
from typing import Any

from entropycache.config.fields import fit
from entropycache.errors import CheckpointError, OptionError
from entropycache.models.rope import RopeScaling


@dataclass(frozen=True)
class ModelConfig:
    """The numbers that define a network, by the names of Hugging Face's configs.

    ``num_key_value_heads`` may be smaller than ``num_attention_heads`` (grouped-query attention)
    and must divide it. ``head_dim`` is the width of one head. With ``attention_bias``, queries,
    keys and values have biases. With ``rope_in_float32`` (LLaDA's ``rope_full_precision``), the
    rotary embedding is applied in float32 whatever the weights are stored in.
    """

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    rms_norm_eps: float
    rope_theta: float
    max_position_embeddings: int
    attention_bias: bool = False
    tie_word_embeddings: bool = False
    rope_in_float32: bool = True
    rope_scaling: RopeScaling | None = None

    @property
    def query_size(self) -> int:
        """The width of all query heads together."""
        return self.num_attention_heads * self.head_dim

    @property
    def key_size(self) -> int:
        """The width of all key heads together, which is that of all value heads."""
        return self.num_key_value_heads * self.head_dim


def exact_quotient(over: str, whole: Any, under: str, parts: Any) -> Any:
    """``whole / parts``, which must be a whole number; ``over`` and ``under`` name the two.

    Raises ``CheckpointError`` where it is none, and what Python raises where one is no number.
    """
    if whole % parts:
        raise CheckpointError(f"{over}, {whole}, is not a multiple of {under}, {parts}")
    return whole // parts


def check_model_config(model: ModelConfig) -> ModelConfig:
    """The same numbers, each of its declared type and usable by a network.

    Raises ``CheckpointError`` with the name, the value and what is accepted.
    """
    types = typing.get_type_hints(ModelConfig)
    numbers = {
        item.name: _checked(item.name, getattr(model, item.name), types[item.name])
        for item in dataclasses.fields(ModelConfig)
        if item.name != "rope_scaling"
    }
    model = ModelConfig(**numbers, rope_scaling=model.rope_scaling)
    if model.num_attention_heads % model.num_key_value_heads:
        raise CheckpointError(
            f"num_attention_heads comes to {model.num_attention_heads}, which "
            f"num_key_value_heads, {model.num_key_value_heads}, does not divide"
        )
    if model.head_dim % 2:
        raise CheckpointError(
            f"head_dim comes to {model.head_dim}; the rotary embedding needs an even number"
        )
    return model


def _checked(name: str, value: Any, kind: Any) -> Any:
    try:
        number = fit(name, value, kind)
    except OptionError as error:
        accepted = {int: "a whole number", float: "a number", bool: "true or false"}[kind]
        raise CheckpointError(f"{name} comes to {value!r}, not {accepted}") from error
    if kind is not bool and not (0 < number < math.inf):
        raise CheckpointError(f"{name} comes to {value!r}; it must be above 0, and finite")
    if kind is int and number > MOST:
        raise CheckpointError(f"{name} comes to {value!r}; it must be at most {MOST}")
    return number


MOST = 2**31 - 1
"""The largest number of a config: beyond it no index of a tensor reaches."""
