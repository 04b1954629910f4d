"""A run that commits one token a step."""

from __future__ import annotations

from entropycache import GenerationConfig

ONE = GenerationConfig(gen_length=12, window=6, tokens_per_step=1, early_stop=False)
