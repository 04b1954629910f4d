"""Dream (7B Base, Instruct, Dream-Coder, DiffuCoder): row i - 1 predicts position i.

Follows the published ``modeling_dream.py`` (arXiv 2508.15487), a Qwen2.5 network without its causal
mask.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from entropycache.core.steps import Positions
from entropycache.errors import CheckpointError
from entropycache.io.tokenizer import SpecialTokens
from entropycache.models.config import ModelConfig
from entropycache.models.family import Family, WeightNames

_LAYER = "model.layers.{}."


def read_config(config: Mapping[str, Any]) -> ModelConfig:
    """The network a Dream ``config.json`` describes."""
    scaling, sliding = config.get("rope_scaling"), config.get("use_sliding_window")
    activation = config.get("hidden_act", "silu")
    if scaling or sliding or activation != "silu":
        raise CheckpointError(
            f"this Dream config has rope_scaling={scaling!r}, use_sliding_window={sliding!r}, "
            f"hidden_act={activation!r}; only no scaling, no sliding window and silu are supported"
        )
    width, heads = config["hidden_size"], config["num_attention_heads"]
    rope = config.get("rope_parameters") or {}
    return ModelConfig(
        hidden_size=width,
        num_hidden_layers=config["num_hidden_layers"],
        num_attention_heads=heads,
        num_key_value_heads=config.get("num_key_value_heads") or heads,
        head_dim=config.get("head_dim") or width // heads,
        intermediate_size=config["intermediate_size"],
        vocab_size=config["vocab_size"],
        rms_norm_eps=config.get("rms_norm_eps", 1e-6),
        rope_theta=config.get("rope_theta") or rope.get("rope_theta", 10000.0),
        max_position_embeddings=config["max_position_embeddings"],
        attention_bias=True,
        tie_word_embeddings=bool(config.get("tie_word_embeddings", False)),
        rope_in_float32=False,
    )


def prediction_rows(positions: Positions) -> Positions:
    """The row before; position 0 has none and is predicted from its own, as the published shift
    duplicates row 0.
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
)
