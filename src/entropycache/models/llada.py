"""LLaDA (8B Base, Instruct, 1.5, and the embedded model): row i predicts position i.

Follows the published ``modeling_llada.py`` and ``configuration_llada.py`` (arXiv 2502.09992).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from entropycache.core.steps import Positions
from entropycache.io.tokenizer import SpecialTokens
from entropycache.models.config import ModelConfig, exact_quotient
from entropycache.models.family import Family, WeightNames
from entropycache.models.rope import read_rope

_BLOCK = "model.transformer.blocks.{}."
_FIXED: Mapping[str, tuple[Any, ...]] = {
    # The values of the published checkpoints; the config class inherits others from OLMo that no
    # checkpoint uses.
    "activation_type": ("silu", "swiglu"),
    "block_type": ("llama",),
    "block_group_size": (1,),
    "layer_norm_type": ("rms",),
    "layer_norm_with_affine": (True,),
    "bias_for_layer_norm": (False, None),
    "alibi": (False,),
    "rope": (True,),
    "attention_layer_norm": (False,),
    "include_bias": (False,),
    "scale_logits": (False,),
    "input_emb_norm": (False,),
    "multi_query_attention": (None, False),
    "clip_qkv": (None,),
    "attention_bias": (False, None),
    "sliding_window": (None,),
}
_IDLE = frozenset(
    # Read where they act: ``mlp_ratio`` and ``vocab_size`` only where the exact numbers lack.
    # ``tie_word_embeddings`` is Hugging Face's name for ``weight_tying``, which LLaDA's code reads.
    {"mlp_ratio", "vocab_size", "alibi_bias_max", "attention_layer_norm_with_affine"}
    | {"tie_word_embeddings"}
)


def read_config(config: Mapping[str, Any]) -> ModelConfig:
    """The network that a LLaDA ``config.json`` describes."""
    width, heads = config["d_model"], config["n_heads"]
    inner, kv_heads = config.get("mlp_hidden_size"), config.get("n_kv_heads")
    rows, rope = config.get("embedding_size"), read_rope(config)
    return ModelConfig(
        hidden_size=width,
        num_hidden_layers=config["n_layers"],
        num_attention_heads=heads,
        num_key_value_heads=heads if kv_heads is None else kv_heads,
        head_dim=exact_quotient("d_model", width, "n_heads", heads),
        intermediate_size=config["mlp_ratio"] * width if inner is None else inner,
        vocab_size=config["vocab_size"] if rows is None else rows,
        rms_norm_eps=config.get("rms_norm_eps", 1e-5),
        rope_theta=10_000.0 if rope.theta is None else rope.theta,
        max_position_embeddings=config["max_sequence_length"],
        attention_bias=config.get("include_qkv_bias", False),
        tie_word_embeddings=config.get("weight_tying", False),
        rope_in_float32=config.get("rope_full_precision", True),
        rope_scaling=rope.scaling,
    )


def prediction_rows(positions: Positions) -> Positions:
    """Each position's own row, ``(n,) -> (n,)``."""
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
    fixed=_FIXED,
    idle=_IDLE,
)
