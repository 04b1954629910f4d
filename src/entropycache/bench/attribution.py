"""What each ingredient of a configuration gives, by adding it alone to plain decoding and by taking
it alone away from the whole.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from entropycache.bench.matrix import Arm
from entropycache.config import GenerationConfig
from entropycache.engine import Engine
from entropycache.errors import OptionError

HEAD_ROWS = 4096
"""Rows of the head at a time where it runs on every position."""


class WholeHead:
    """A network whose output head runs on every row of a pass, as code does that asks the model for
    all logits; what is returned is the same.
    """

    def __init__(self, network: Any) -> None:
        self._network = network

    def __call__(self, *arguments: Any) -> Tensor:
        hidden: Tensor = self._network(*arguments)
        for rows in torch.split(hidden, HEAD_ROWS):
            self._network.logits(rows)
        return hidden

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)


def whole_head(engine: Engine) -> Engine:
    """The same model with the output head on every row."""
    twin = Engine(engine.network, engine.family, engine.text)
    twin.runner.network = WholeHead(engine.network)  # type: ignore[assignment]
    return twin


def ingredients(config: GenerationConfig) -> dict[str, dict[str, Any]]:
    """What of a configuration can be taken away, by name: the options that do so."""
    found: dict[str, dict[str, Any]] = {}
    if config.policy.strip() != "none":
        found["the cache"] = {"policy": "none"}
    if config.tokens_per_step != 1 and config.steps != config.gen_length:
        found["several tokens a step"] = {"tokens_per_step": 1}
    if config.early_stop:
        found["early stop"] = {"early_stop": False}
    return found


def arms(engine: Engine, config: GenerationConfig) -> list[Arm]:
    """Plain decoding with every logit computed, each ingredient alone, all together, and all but
    each one. The smaller output head is an ingredient too.
    """
    removable = ingredients(config)
    if not removable:
        raise OptionError("plain decoding has no ingredient that could be taken away")
    full = whole_head(engine)
    nothing = {name: value for options in removable.values() for name, value in options.items()}
    plain = GenerationConfig.of(config, **nothing)
    found = [Arm("plain", full, plain), Arm("smaller head alone", engine, plain)]
    for name in removable:
        others = {k: v for n, o in removable.items() if n != name for k, v in o.items()}
        found.append(Arm(f"{name} alone", full, GenerationConfig.of(config, **others)))
    found.append(Arm("all together", engine, config))
    for name, options in removable.items():
        found.append(Arm(f"all but {name}", engine, GenerationConfig.of(config, **options)))
    return [*found, Arm("all but the smaller head", full, config)]
