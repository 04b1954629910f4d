"""From decoding options to the policy and the strategy of one request, and whether the two go
together.
"""

from __future__ import annotations

from entropycache.config import GenerationConfig
from entropycache.errors import OptionError
from entropycache.models.family import Family
from entropycache.policies import Policy, make_policy
from entropycache.policies.base import NeedsOrder, PrefersWindow
from entropycache.policies.saved import CALIBRATED
from entropycache.strategies import Strategy, make_strategy


def make_rules(
    config: GenerationConfig, family: Family, calibrated: str | None
) -> tuple[Policy, Strategy]:
    """A fresh policy and strategy for one request; ``calibrated`` is what a policy of that name
    stands for. Raises ``OptionError`` where they do not go together.
    """
    policy = make_policy(_spec(config.policy, calibrated), family.sources)
    width = config.DEFAULT_WINDOW
    if isinstance(policy, PrefersWindow):
        width = policy.preferred_window()
    strategy = make_strategy(config, width)
    if isinstance(policy, NeedsOrder) and policy.needs_order and not strategy.order.drawn:
        raise OptionError(
            f"policy {config.policy} needs an order drawn in advance: give order=random or "
            "left-to-right, with tokens_per_step or steps"
        )
    return policy, strategy


def _spec(policy: str, calibrated: str | None) -> str:
    if policy.strip() != CALIBRATED:
        return policy
    if calibrated is None:
        raise OptionError(
            "policy calibrated needs a calibration saved beside the model; "
            "entropycache calibrate --save makes one"
        )
    return calibrated
