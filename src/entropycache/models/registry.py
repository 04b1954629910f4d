"""Model families by the architectures that name them in a checkpoint's ``config.json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from entropycache.errors import CheckpointError, OptionError
from entropycache.models.dream import DREAM
from entropycache.models.family import Family
from entropycache.models.llada import LLADA

FAMILIES: dict[str, Family] = {
    architecture: family for family in (LLADA, DREAM) for architecture in family.architectures
}


def register(family: Family) -> None:
    """Make a model family of your own known under each of its ``architectures``.

    Raises ``OptionError`` where one of them is taken, or where there is none.
    """
    taken = [name for name in family.architectures if name in FAMILIES]
    if taken or not family.architectures:
        reason = f"architecture {taken[0]!r} is registered already" if taken else "no architectures"
        raise OptionError(f"model family {family.model_type!r}: {reason}")
    FAMILIES.update(dict.fromkeys(family.architectures, family))


def family_of(config: Mapping[str, Any], where: str) -> Family:
    """The family of a checkpoint, by the ``architectures`` of its config.

    Where these are absent, as in a config that was made in memory, ``model_type`` decides. Raises
    ``CheckpointError``, whose message starts with ``where``, for an architecture that is not known.
    """
    # ``model_type`` comes second because other networks share it: LLaDA-MoE says ``llada``,
    # DreamReasoner ``Dream``.
    given = config if isinstance(config, Mapping) else {}
    named = given.get("architectures") or [given.get("model_type")]
    by_type = {family.model_type: family for family in FAMILIES.values()}
    known: Mapping[Any, Family] = FAMILIES if given.get("architectures") else by_type
    names = named if isinstance(named, list) else [named]
    found = [known[name] for name in names if isinstance(name, str) and name in known]
    if not found:
        raise CheckpointError(
            f"{where}: unknown architecture {', '.join(map(repr, names))}; supported: "
            f"{', '.join(FAMILIES)}"
        )
    return found[0]
