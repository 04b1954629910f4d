"""The numbers of a network, in one vocabulary for every model family."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelConfig:
    """The numbers that define a network, by the names of Hugging Face's configs.

    ``num_key_value_heads`` may be smaller than ``num_attention_heads`` (grouped-query attention)
    and must divide it; ``head_dim`` is the width of one head. ``attention_bias``: queries, keys and
    values have biases. ``rope_in_float32``: the rotary embedding is applied in float32 whatever the
    weights are stored in, LLaDA's ``rope_full_precision``.
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

    @property
    def query_size(self) -> int:
        """The width of all query heads together."""
        return self.num_attention_heads * self.head_dim

    @property
    def key_size(self) -> int:
        """The width of all key heads together, which is that of all value heads."""
        return self.num_key_value_heads * self.head_dim
