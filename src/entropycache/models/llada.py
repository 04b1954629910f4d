"""LLaDA (8B Base, Instruct, 1.5, and the embedded model): row i predicts position i.

Follows the published ``modeling_llada.py`` and ``configuration_llada.py`` (arXiv 2502.09992).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from entropycache.core.steps import Positions
from entropycache.errors import CheckpointError
from entropycache.io.tokenizer import SpecialTokens
from entropycache.models.config import ModelConfig
from entropycache.models.family import Family, WeightNames

_BLOCK = "model.transformer.blocks.{}."
_FIXED: Mapping[str, Any] = {
    # What the published checkpoints have; the config class inherits other values from OLMo that
    # they never use.
    "activation_type": ("silu", "swiglu"),
    "block_type": ("llama",),
    "layer_norm_type": ("rms",),
    "alibi": (False,),
    "rope": (True,),
    "attention_layer_norm": (False,),
    "include_bias": (False,),
    "scale_logits": (False,),
    "input_emb_norm": (False,),
    "multi_query_attention": (None, False),
    "clip_qkv": (None,),
}


def read_config(config: Mapping[str, Any]) -> ModelConfig:
    """The network a LLaDA ``config.json`` describes."""
    for key, accepted in _FIXED.items():
        if config.get(key, accepted[0]) not in accepted:
            raise CheckpointError(
                f"this LLaDA config has {key}={config[key]!r}; "
                f"supported: {' or '.join(map(repr, accepted))}"
            )
    width, heads = config["d_model"], config["n_heads"]
    mlp = config.get("mlp_hidden_size")
    return ModelConfig(
        hidden_size=width,
        num_hidden_layers=config["n_layers"],
        num_attention_heads=heads,
        num_key_value_heads=config.get("n_kv_heads") or heads,
        head_dim=width // heads,
        intermediate_size=mlp if mlp is not None else config["mlp_ratio"] * width,
        vocab_size=config.get("embedding_size") or config["vocab_size"],
        rms_norm_eps=config.get("rms_norm_eps", 1e-5),
        rope_theta=config.get("rope_theta", 10000.0),
        max_position_embeddings=config["max_sequence_length"],
        attention_bias=bool(config.get("include_qkv_bias", False)),
        tie_word_embeddings=bool(config.get("weight_tying", False)),
        rope_in_float32=bool(config.get("rope_full_precision", True)),
    )


def prediction_rows(positions: Positions) -> Positions:
    """A position is its own source."""
    return positions


LLADA = Family(
    model_type="llada",
    architectures=("LLaDAModelLM",),
    published=(
        "GSAI-ML/LLaDA-8B-Base",
        "GSAI-ML/LLaDA-8B-Instruct",
        "GSAI-ML/LLaDA-1.5",
    ),
    read_config=read_config,
    names=WeightNames(
        embedding="model.transformer.wte.weight",
        attn_norm=_BLOCK + "attn_norm.weight",
        qkv=(_BLOCK + "q_proj.weight", _BLOCK + "k_proj.weight", _BLOCK + "v_proj.weight"),
        qkv_bias=(_BLOCK + "q_proj.bias", _BLOCK + "k_proj.bias", _BLOCK + "v_proj.bias"),
        out=_BLOCK + "attn_out.weight",
        mlp_norm=_BLOCK + "ff_norm.weight",
        gate_up=(_BLOCK + "ff_proj.weight", _BLOCK + "up_proj.weight"),
        down=_BLOCK + "ff_out.weight",
        norm="model.transformer.ln_f.weight",
        head="model.transformer.ff_out.weight",
    ),
    prediction_rows=prediction_rows,
    special=SpecialTokens(mask="<|mdm_mask|>", ends=("<|endoftext|>", "<|eot_id|>")),
)
