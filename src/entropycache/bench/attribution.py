"""What each ingredient of a configuration gives, by adding it alone to plain decoding and by taking
it alone away from the whole.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from entropycache.bench.comparison import Candidate
from entropycache.config.generation import GenerationConfig
from entropycache.engine.build import make_policy_and_strategy, with_policy_defaults
from entropycache.engine.engine import Engine
from entropycache.errors import OptionError
from entropycache.models.transformer import Arrange, Attend, Wanted

HEAD_ROWS = 4096
"""Rows of the head at a time where it runs on every position."""


class WholeHead:
    """A network whose last layer and output head run on every row of a pass, as in code that asks
    the model for all logits; what is returned is the same.
    """

    def __init__(self, network: Any) -> None:
        self._network = network

    def __call__(
        self, ids: Tensor, positions: Tensor, attend: Attend, arrange: Arrange, wanted: Wanted
    ) -> Tensor:
        hidden: Tensor = self._network(ids, positions, attend, arrange)
        for rows in torch.split(hidden, HEAD_ROWS):
            self._network.logits(rows)
        return hidden[wanted()]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)


def whole_head(engine: Engine) -> Engine:
    """The same model with the output head on every row."""
    twin = Engine(engine.network, engine.family, engine.tokenizer)
    twin.calibrated = engine.calibrated
    twin.runner.network = WholeHead(engine.network)  # type: ignore[assignment]
    return twin


def ingredients(config: GenerationConfig) -> dict[str, dict[str, Any]]:
    """What of a configuration can be taken away, by name: the options that do so."""
    found: dict[str, dict[str, Any]] = {}
    if config.policy.strip() != "none":
        found["the cache"] = {"policy": "none"}
    if config.tokens_per_step != 1 and config.steps != config.gen_length:
        one = {"steps": config.gen_length} if config.alg else {"tokens_per_step": 1}
        found["several tokens a step"] = one
    if config.early_stop:
        found["early stop"] = {"early_stop": False}
    return found


def candidates(engine: Engine, asked: GenerationConfig) -> list[Candidate]:
    """Plain decoding with every logit computed, each ingredient alone, all together, and all but
    each one. The smaller output head is an ingredient too, except for a policy whose sequences have
    a runner of their own (dLLM-Cache).
    """
    policy, _ = make_policy_and_strategy(asked, engine.family, engine.calibrated)
    # Spelt out first: a window that the policy was published with would go with the policy.
    config = with_policy_defaults(asked, policy, engine.family)
    removable = ingredients(config)
    if not removable:
        raise OptionError("plain decoding has no ingredient that could be taken away")
    headed = policy.feature_refresh() is None
    full = whole_head(engine) if headed else engine
    nothing = {name: value for options in removable.values() for name, value in options.items()}
    plain = config.merge(**nothing)
    found = [("plain", full, plain)]
    found += [("smaller head alone", engine, plain)] if headed else []
    for name in removable:
        others = {k: v for n, o in removable.items() if n != name for k, v in o.items()}
        found.append((f"{name} alone", full, config.merge(**others)))
    found.append(("all together", engine, config))
    for name, options in removable.items():
        found.append((f"all but {name}", engine, config.merge(**options)))
    found += [("all but the smaller head", full, config)] if headed else []
    return [Candidate(name, by, c, model="one") for name, by, c in found]
