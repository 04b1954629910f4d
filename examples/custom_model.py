"""A model family of your own: say how its config is read and how its weights are called, then load
and decode a checkpoint of it. This one has random weights, saved to a temporary folder.

    python examples/custom_model.py
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from entropycache import load
from entropycache.core.steps import Positions
from entropycache.io.tokenizer import SpecialTokens
from entropycache.models import Family, register
from entropycache.models.config import ModelConfig
from entropycache.models.family import WeightNames
from entropycache.models.loading import save_network
from entropycache.models.random_init import random_network


def read_config(config: Mapping[str, Any]) -> ModelConfig:
    """The network that a ``config.json`` of this family describes."""
    return ModelConfig(
        hidden_size=config["dim"],
        num_hidden_layers=config["depth"],
        num_attention_heads=config["heads"],
        num_key_value_heads=config["heads"],
        head_dim=config["dim"] // config["heads"],
        intermediate_size=4 * config["dim"],
        vocab_size=config["vocabulary"],
        rms_norm_eps=1e-6,
        rope_theta=10_000.0,
        max_position_embeddings=config["context"],
    )


def prediction_rows(positions: Positions) -> Positions:
    """Each position is predicted from its own row."""
    return positions


ACORN = Family(
    model_type="acorn",
    architectures=("AcornForDiffusion",),
    published=(),
    read_config=read_config,
    names=WeightNames(  # {} stands for the number of the layer
        embedding="tokens",
        attn_norm="layer.{}.norm1",
        qkv=("layer.{}.query", "layer.{}.key", "layer.{}.value"),
        qkv_bias=(),
        out="layer.{}.out",
        mlp_norm="layer.{}.norm2",
        gate_up=("layer.{}.gate", "layer.{}.up"),
        down="layer.{}.down",
        norm="norm",
        head="head",
    ),
    prediction_rows=prediction_rows,
    special=SpecialTokens(mask="<mask>", ends=("<end>",)),
)
CONFIG = {"architectures": ["AcornForDiffusion"], "mask_token_id": 127, "eos_token_id": 126} | {
    "dim": 64, "depth": 2, "heads": 4, "vocabulary": 128, "context": 256,
}  # fmt: skip

if __name__ == "__main__":
    register(ACORN)
    with tempfile.TemporaryDirectory() as folder:
        save_network(random_network(read_config(CONFIG)), ACORN, CONFIG, Path(folder))
        engine = load(folder)
    for policy in ("none", "entropy:tau=-1", "entropy:tau=5"):  # 5 nats: more than 128 tokens have
        done = engine.generate([1, 2, 3], policy=policy, gen_length=24)
        print(f"{policy:15} {done.forwards:3} passes, {done.full_passes:3} full: {done.token_ids}")
