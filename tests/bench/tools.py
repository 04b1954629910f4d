"""A short decoding run, for every benchmark."""

from __future__ import annotations

from entropycache import GenerationConfig

SHORT = GenerationConfig(gen_length=24, window=8, tokens_per_step=2, early_stop=False)
