"""Dream (7B Base, Instruct, Dream-Coder, DiffuCoder): row i - 1 predicts position i.

Follows the published ``modeling_dream.py`` (arXiv 2508.15487), a Qwen2.5 network without its causal
mask.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from entropycache.core.steps import Positions
from entropycache.io.tokenizer import SpecialTokens
from entropycache.models.config import ModelConfig, exact_quotient
from entropycache.models.family import Family, WeightNames
from entropycache.models.rope import read_rope

_LAYER = "model.layers.{}."


_FIXED: Mapping[str, tuple[Any, ...]] = {
    "hidden_act": ("silu",),
    "use_sliding_window": (False, None),
    "use_mrope": (False, None),
    "attention_bias": (True, None),  # Qwen2.5's queries, keys and values have biases
    "mlp_bias": (False, None),
}
_IDLE = frozenset({"sliding_window", "max_window_layers", "layer_types"})
"""Without effect as long as ``use_sliding_window`` is off."""


def read_config(config: Mapping[str, Any]) -> ModelConfig:
    """The network that a Dream ``config.json`` describes."""
    width, heads = config["hidden_size"], config["num_attention_heads"]
    kv_heads, head_dim = config.get("num_key_value_heads"), config.get("head_dim")
    if head_dim is None:
        head_dim = exact_quotient("hidden_size", width, "num_attention_heads", heads)
    rope = read_rope(config)
    return ModelConfig(
        hidden_size=width,
        num_hidden_layers=config["num_hidden_layers"],
        num_attention_heads=heads,
        num_key_value_heads=heads if kv_heads is None else kv_heads,
        head_dim=head_dim,
        intermediate_size=config["intermediate_size"],
        vocab_size=config["vocab_size"],
        rms_norm_eps=config.get("rms_norm_eps", 1e-6),
        rope_theta=10_000.0 if rope.theta is None else rope.theta,
        max_position_embeddings=config["max_position_embeddings"],
        attention_bias=True,
        tie_word_embeddings=config.get("tie_word_embeddings", False),
        rope_in_float32=False,
        rope_scaling=rope.scaling,
    )


def prediction_rows(positions: Positions) -> Positions:
    """The row before each position, ``(n,) -> (n,)``.

    Position 0 has no row before it. It is predicted from its own, because the published shift of
    logits duplicates row 0.
    """
    return np.maximum(positions - 1, 0)


DREAM = Family(
    model_type="Dream",
    architectures=("DreamModel",),
    published=(
        "Dream-org/Dream-v0-Base-7B",
        "Dream-org/Dream-v0-Instruct-7B",
        "Dream-org/Dream-Coder-v0-Instruct-7B",
        "apple/DiffuCoder-7B-cpGRPO",
    ),
    read_config=read_config,
    names=WeightNames(
        embedding="model.embed_tokens.weight",
        attn_norm=_LAYER + "input_layernorm.weight",
        qkv=(
            _LAYER + "self_attn.q_proj.weight",
            _LAYER + "self_attn.k_proj.weight",
            _LAYER + "self_attn.v_proj.weight",
        ),
        qkv_bias=(
            _LAYER + "self_attn.q_proj.bias",
            _LAYER + "self_attn.k_proj.bias",
            _LAYER + "self_attn.v_proj.bias",
        ),
        out=_LAYER + "self_attn.o_proj.weight",
        mlp_norm=_LAYER + "post_attention_layernorm.weight",
        gate_up=(_LAYER + "mlp.gate_proj.weight", _LAYER + "mlp.up_proj.weight"),
        down=_LAYER + "mlp.down_proj.weight",
        norm="model.norm.weight",
        head="lm_head.weight",
    ),
    prediction_rows=prediction_rows,
    special=SpecialTokens(
        mask="<|mask|>", ends=("<|endoftext|>", "<|im_end|>"), tokenizer_class="Qwen2Tokenizer"
    ),
    fixed=_FIXED,
    idle=_IDLE,
)
