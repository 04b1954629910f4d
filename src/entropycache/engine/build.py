"""One request's policy and strategy, made from decoding options and checked against each other."""

from __future__ import annotations

from entropycache.config.generation import GenerationConfig
from entropycache.errors import OptionError
from entropycache.models.family import Family
from entropycache.policies import Policy, make_policy
from entropycache.policies.saved import CALIBRATED
from entropycache.strategies import Strategy, make_strategy


def make_policy_and_strategy(
    config: GenerationConfig, family: Family, calibrated: str | None
) -> tuple[Policy, Strategy]:
    """A new policy and strategy for one request.

    ``calibrated`` is the spec that a policy of that name stands for. Raises ``OptionError`` for a
    policy or option that is not known, and for a policy and an order that do not go together.
    """
    policy = make_policy(resolve_spec(config.policy, calibrated), family.prediction_rows)
    strategy = make_strategy(with_policy_defaults(config, policy, family))
    if policy.needs_order and not strategy.order.drawn:
        raise OptionError(
            f"policy {config.policy} needs an order drawn in advance: give order=random or "
            "left-to-right, with tokens_per_step or steps"
        )
    return policy, strategy


def with_policy_defaults(
    config: GenerationConfig, policy: Policy, family: Family
) -> GenerationConfig:
    """``config`` with every default filled in that takes effect under ``policy``.

    A policy may have been published with a window of its own for a model family.
    """
    window = policy.windows.get(family.model_type, config.DEFAULT_WINDOW)
    return config.with_defaults(window)


def resolve_spec(policy: str, calibrated: str | None) -> str:
    """The spec ``calibrated`` for a policy of that name, and ``policy`` itself for any other.

    Raises ``OptionError`` if nothing was calibrated for the model.
    """
    if policy.strip() != CALIBRATED:
        return policy
    if calibrated is None:
        raise OptionError(
            "policy calibrated needs a calibration saved beside the model; "
            "entropycache calibrate --save makes one"
        )
    return calibrated
