"""LLaDA (8B Base, Instruct, 1.5, and the embedded model): row i predicts position i.

Follows the published ``modeling_llada.py`` and ``configuration_llada.py`` (arXiv 2502.09992).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from entropycache.core.steps import Positions
from entropycache.errors import CheckpointError
from entropycache.io.tokenizer import SpecialTokens
from entropycache.models.family import Family, WeightNames
from entropycache.models.transformer import Shape

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


def shape(config: Mapping[str, Any]) -> Shape:
    """The network a LLaDA ``config.json`` describes."""
    for key, accepted in _FIXED.items():
        if config.get(key, accepted[0]) not in accepted:
            raise CheckpointError(
                f"this LLaDA config has {key}={config[key]!r}; "
                f"supported: {' or '.join(map(repr, accepted))}"
            )
    width, heads = config["d_model"], config["n_heads"]
    mlp = config.get("mlp_hidden_size")
    return Shape(
        width=width,
        layers=config["n_layers"],
        heads=heads,
        kv_heads=config.get("n_kv_heads") or heads,
        head_dim=width // heads,
        mlp_width=mlp if mlp is not None else config["mlp_ratio"] * width,
        vocab_size=config.get("embedding_size") or config["vocab_size"],
        norm_eps=config.get("rms_norm_eps", 1e-5),
        rope_theta=config.get("rope_theta", 10000.0),
        max_positions=config["max_sequence_length"],
        qkv_bias=bool(config.get("include_qkv_bias", False)),
        tied_head=bool(config.get("weight_tying", False)),
        rotate_in_float32=bool(config.get("rope_full_precision", True)),
    )


def sources(positions: Positions) -> Positions:
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
    shape=shape,
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
    sources=sources,
    special=SpecialTokens(mask="<|mdm_mask|>", ends=("<|endoftext|>", "<|eot_id|>")),
)


def config(shape: Shape, mask_id: int, end_id: int) -> dict[str, Any]:
    """The ``config.json`` that the published LLaDA code reads, for a network of this shape."""
    return {
        "activation_type": "silu",
        "alibi": False,
        "architectures": ["LLaDAModelLM"],
        "attention_dropout": 0.0,
        "attention_layer_norm": False,
        "attention_layer_norm_with_affine": True,
        "bias_for_layer_norm": False,
        "block_group_size": 1,
        "block_type": "llama",
        "d_model": shape.width,
        "embedding_dropout": 0.0,
        "embedding_size": shape.vocab_size,
        "eos_token_id": end_id,
        "flash_attention": False,
        "include_bias": False,
        "include_qkv_bias": shape.qkv_bias,
        "init_device": "cpu",
        "input_emb_norm": False,
        "layer_norm_type": "rms",
        "layer_norm_with_affine": True,
        "mask_token_id": mask_id,
        "max_sequence_length": shape.max_positions,
        "mlp_hidden_size": shape.mlp_width,
        "mlp_ratio": 4,
        "model_type": "llada",
        "multi_query_attention": None,
        "n_heads": shape.heads,
        "n_kv_heads": shape.kv_heads,
        "n_layers": shape.layers,
        "pad_token_id": end_id,
        "residual_dropout": 0.0,
        "rms_norm_eps": shape.norm_eps,
        "rope": True,
        "rope_full_precision": shape.rotate_in_float32,
        "rope_theta": shape.rope_theta,
        "scale_logits": False,
        "torch_dtype": "bfloat16",
        "use_cache": False,
        "vocab_size": shape.vocab_size,
        "weight_tying": shape.tied_head,
    }
