"""Evaluations named after rows of the EntropyCache paper's tables (arXiv 2603.18489).

A preset has a task, a number of worked examples and a length. Decoding settings are those published
for each model family.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from entropycache.config.generation import GenerationConfig
from entropycache.errors import OptionError

DECODING: Mapping[str, Mapping[str, Any]] = {
    "llada": {"block_length": 32, "threshold": 0.9, "temperature": 0.0},
    "Dream": {"window": 32, "threshold": 0.9, "temperature": 0.1, "top_p": 0.9},
}
"""LLaDA-8B-Instruct: greedy tokens in blocks of 32, as Fast-dLLM and d2Cache evaluate it (its
authors choose a block length for each task). Dream-7B-Instruct: temperature 0.1 and top-p 0.9, as
its authors evaluate it (at temperature 0 it is reported to lose most of its accuracy); it has no
blocks, and the sliding window of 32 is our choice. The threshold of 0.9 is Fast-dLLM's.
"""


@dataclass(frozen=True)
class Preset:
    """A row of the paper: a task of lm_eval or ours, with ``shots`` worked examples.

    ``ours`` names the settings that the paper does not state and we chose.
    """

    task: str
    shots: int
    gen_length: int
    ours: str = ""


PRESETS: Mapping[str, Preset] = {
    "paper-gsm8k": Preset("gsm8k", 4, 256),
    "paper-math500": Preset("minerva_math500", 4, 256, "4 examples and length 256 as in d2Cache"),
    "paper-mbpp": Preset("mbpp", 3, 256),
    "paper-humaneval": Preset("humaneval", 0, 512),
    "paper-gsm8k-cot": Preset("gsm8k_cot", 8, 256, "length 256 as in d2Cache"),
    "paper-mmlu-pro": Preset(
        "mmlu_pro", 5, 256, "lm_eval's 5 worked examples; length 256 as in d2Cache"
    ),
    "paper-bbh": Preset("bbh", 3, 512, "length 512 as in Dream's script"),
    "paper-gpqa": Preset(
        "gpqa_main_cot_zeroshot", 0, 256, "the main set; length 256 as in d2Cache"
    ),
}
"""Where the paper states less than a run needs, ``ours`` says what was chosen. The policy is
EntropyCache's default everywhere, and chats are used with examples as earlier turns.
"""


def find_preset(name: str) -> Preset:
    """The preset called ``name``. Raises ``OptionError`` for an unknown name, listing the known."""
    if name not in PRESETS:
        raise OptionError(f"unknown preset {name!r}; known: {', '.join(PRESETS)}")
    return PRESETS[name]


def decoding(preset: Preset, family: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Decoding options of a preset for a model ``family``, with the ``given`` options over them.

    A given option also takes the place of its alternatives. Raises ``OptionError`` for a family
    without published settings, and for options that are not accepted.
    """
    if family not in DECODING:
        raise OptionError(f"presets are for {' and '.join(DECODING)}, not for {family}")
    base = {**DECODING[family], "gen_length": preset.gen_length}
    config = GenerationConfig().merge(**base).merge(**given)
    values = {name: getattr(config, name) for name in {**base, **given}}
    return {name: value for name, value in values.items() if value is not None}
