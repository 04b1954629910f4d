"""The gain of each ingredient of a configuration: added alone to plain decoding, and taken alone
away from the whole.
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
    """A network whose last layer and output head run on every row of a pass.

    Code that asks a model for all logits does this much work. The hidden states returned are the
    same as without. ``(rows, width)`` as ``Transformer.forward``.
    """

    def __init__(self, network: Any) -> None:
        self._network = network

    def __call__(
        self, ids: Tensor, positions: Tensor, attend: Attend, arrange: Arrange, wanted: Wanted
    ) -> Tensor:
        hidden: Tensor = self._network(ids, positions, attend, arrange)
        # The logits are thrown away: only the time that they take is wanted.
        for rows in torch.split(hidden, HEAD_ROWS):
            self._network.logits(rows)
        return hidden[wanted()]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)


def whole_head(engine: Engine) -> Engine:
    """An engine for the same model, with its output head on every row."""
    twin = Engine(engine.network, engine.family, engine.tokenizer)
    twin.calibrated = engine.calibrated
    twin.runner.network = WholeHead(engine.network)  # type: ignore[assignment]
    return twin


def ingredients(config: GenerationConfig) -> dict[str, dict[str, Any]]:
    """The ingredients of a configuration by name, each with the options that take it away."""
    removable: dict[str, dict[str, Any]] = {}
    if config.policy.strip() != "none":
        removable["the cache"] = {"policy": "none"}
    if config.tokens_per_step != 1 and config.steps != config.gen_length:
        one = {"steps": config.gen_length} if config.alg else {"tokens_per_step": 1}
        removable["several tokens a step"] = one
    if config.early_stop:
        removable["early stop"] = {"early_stop": False}
    return removable


def candidates(engine: Engine, asked: GenerationConfig) -> list[Candidate]:
    """Plain decoding with every logit computed, each ingredient alone, all together, and all but
    each one.

    The smaller output head is an ingredient too, except for a policy that caches features
    (dLLM-Cache), whose passes run the layers one by one. Raises ``OptionError`` if there is no
    ingredient to take away.
    """
    policy, _ = make_policy_and_strategy(asked, engine.family, engine.calibrated)
    # Defaults are filled in first: a window that the policy was published with would otherwise
    # go with the policy, and the comparison would change two things at once.
    config = with_policy_defaults(asked, policy, engine.family)
    removable = ingredients(config)
    if not removable:
        raise OptionError(
            "plain decoding has no ingredient that could be taken away; give a policy, a rule that "
            "commits several tokens a step, or early_stop"
        )
    headed = policy.feature_refresh() is None
    full = whole_head(engine) if headed else engine
    nothing = {name: value for options in removable.values() for name, value in options.items()}
    plain = config.merge(**nothing)
    rows = [("plain", full, plain)]
    rows += [("smaller head alone", engine, plain)] if headed else []
    for name in removable:
        others = {k: v for n, o in removable.items() if n != name for k, v in o.items()}
        rows.append((f"{name} alone", full, config.merge(**others)))
    rows.append(("all together", engine, config))
    for name, options in removable.items():
        rows.append((f"all but {name}", engine, config.merge(**options)))
    rows += [("all but the smaller head", full, config)] if headed else []
    return [Candidate(name, by, c, model="one") for name, by, c in rows]
