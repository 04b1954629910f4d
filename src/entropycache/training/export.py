"""Networks in training as checkpoints in LLaDA's published format."""

from __future__ import annotations

from typing import Any

from entropycache.models.config import ModelConfig


def llada_config(model: ModelConfig, mask_id: int, end_id: int) -> dict[str, Any]:
    """The ``config.json`` that the published LLaDA code reads, for a network of this model."""
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
        "d_model": model.hidden_size,
        "embedding_dropout": 0.0,
        "embedding_size": model.vocab_size,
        "eos_token_id": end_id,
        "flash_attention": False,
        "include_bias": False,
        "include_qkv_bias": model.attention_bias,
        "init_device": "cpu",
        "input_emb_norm": False,
        "layer_norm_type": "rms",
        "layer_norm_with_affine": True,
        "mask_token_id": mask_id,
        "max_sequence_length": model.max_position_embeddings,
        "mlp_hidden_size": model.intermediate_size,
        "mlp_ratio": 4,
        "model_type": "llada",
        "multi_query_attention": None,
        "n_heads": model.num_attention_heads,
        "n_kv_heads": model.num_key_value_heads,
        "n_layers": model.num_hidden_layers,
        "pad_token_id": end_id,
        "residual_dropout": 0.0,
        "rms_norm_eps": model.rms_norm_eps,
        "rope": True,
        "rope_full_precision": model.rope_in_float32,
        "rope_theta": model.rope_theta,
        "scale_logits": False,
        "torch_dtype": "bfloat16",
        "use_cache": False,
        "vocab_size": model.vocab_size,
        "weight_tying": model.tie_word_embeddings,
    }
