"""Rotary position embeddings: the frequencies of a checkpoint, scaled for longer contexts where its
config says so.

Follows transformers' ``modeling_rope_utils`` for the types ``linear`` (arXiv 2306.15595), ``yarn``
(arXiv 2309.00071) and ``llama3``. Types whose frequencies depend on the length of a canvas, such as
``dynamic``, are refused: keys are stored after the rotary embedding, once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from entropycache.config.fields import fit
from entropycache.errors import CheckpointError, OptionError

TYPES = ("default", "linear", "yarn", "llama3")


@dataclass(frozen=True)
class RopeScaling:
    """How the frequencies of a checkpoint are scaled, by the names of Hugging Face's configs.

    ``factor`` is the ratio of the longer context to ``original_max_position_embeddings``. The other
    numbers belong to one type each: ``low_freq_factor`` and ``high_freq_factor`` to ``llama3``, the
    rest to ``yarn``.
    """

    rope_type: str
    factor: float
    original_max_position_embeddings: int | None = None
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None
    truncate: bool = True

    @property
    def table_scale(self) -> float:
        """The number that cosines and sines are multiplied by; 1 but for ``yarn``."""
        if self.rope_type != "yarn":
            return 1.0
        if self.attention_factor is not None:
            return self.attention_factor
        if self.mscale and self.mscale_all_dim:
            return _magnitude(self.factor, self.mscale) / _magnitude(
                self.factor, self.mscale_all_dim
            )
        return _magnitude(self.factor, 1.0)


@dataclass(frozen=True)
class Rope:
    """The rotary embedding that a config asks for: its base ``theta`` where it gives one, and the
    scaling, if any.
    """

    theta: float | None
    scaling: RopeScaling | None


def read_rope(config: Mapping[str, Any]) -> Rope:
    """The rotary embedding of a config: ``rope_theta``, and ``rope_scaling`` or its newer name
    ``rope_parameters``, which may hold ``rope_theta`` too.

    Raises ``CheckpointError`` for a type that is not supported, for a number that cannot be used,
    and where the two names say different things.
    """
    given = [config.get("rope_parameters"), config.get("rope_scaling")]
    tables = [_table(value) for value in given if value is not None]
    thetas = [config.get("rope_theta"), *(table.get("rope_theta") for table in tables)]
    bases = {theta for theta in thetas if theta is not None}
    scalings = {_scaling(table, config) for table in tables}
    if len(bases) > 1 or len(scalings) > 1:
        raise CheckpointError(
            "rope_theta, rope_parameters and rope_scaling contradict each other: "
            f"rope_theta={config.get('rope_theta')!r}, rope_parameters={given[0]!r}, "
            f"rope_scaling={given[1]!r}"
        )
    theta = next(iter(bases), None)
    if theta is None and "rope_theta" in config:
        raise CheckpointError("rope_theta must be a number above 0, and finite, not null")
    return Rope(None if theta is None else _number("rope_theta", theta), next(iter(scalings), None))


def inverse_frequencies(
    head_dim: int, theta: float, scaling: RopeScaling | None, like: Tensor
) -> Tensor:
    """Radians a position of each pair of dimensions, ``(head_dim / 2,)``, in the dtype and on the
    device of ``like``.
    """
    exponents = torch.arange(0, head_dim, 2, dtype=like.dtype, device=like.device) / head_dim
    plain = 1.0 / theta**exponents
    if scaling is None:
        return plain
    if scaling.rope_type == "linear":
        return plain / scaling.factor
    if scaling.rope_type == "llama3":
        return _llama3(plain, scaling)
    return _yarn(plain, theta, scaling)


def _llama3(plain: Tensor, scaling: RopeScaling) -> Tensor:
    """Long waves are stretched, short ones kept, those between mixed of both."""
    assert scaling.original_max_position_embeddings is not None
    turns = scaling.original_max_position_embeddings * plain / (2 * math.pi)
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return (1 - kept) * plain / scaling.factor + kept * plain


def _yarn(plain: Tensor, theta: float, scaling: RopeScaling) -> Tensor:
    """Dimensions that turn often within the original context are kept, those that turn seldom
    stretched, with a ramp between.
    """
    size = 2 * len(plain)
    first = _dimension(scaling.beta_fast, size, theta, scaling)
    last = _dimension(scaling.beta_slow, size, theta, scaling)
    if scaling.truncate:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, size - 1)
    if first == last:
        last += 0.001  # as the original has it, so that the ramp has a width
    steps = torch.arange(len(plain), dtype=plain.dtype, device=plain.device)
    stretched = ((steps - first) / (last - first)).clamp(0, 1)
    return stretched * plain / scaling.factor + (1 - stretched) * plain


def _dimension(turns: float, size: int, theta: float, scaling: RopeScaling) -> float:
    """The pair of dimensions that makes so many turns within the original context."""
    assert scaling.original_max_position_embeddings is not None
    length = scaling.original_max_position_embeddings
    return size * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(theta))


def _magnitude(factor: float, weight: float) -> float:
    """YaRN's correction of attention's temperature (its equation 21)."""
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0


def _table(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise CheckpointError(f"rope_scaling must be an object or null, not {value!r}")
    return value


def _scaling(table: Mapping[str, Any], config: Mapping[str, Any]) -> RopeScaling | None:
    kind = table.get("rope_type", table.get("type", "default"))
    if kind not in TYPES:
        raise CheckpointError(
            f"rope_scaling of type {kind!r} is not supported; supported: {', '.join(TYPES)}"
        )
    known = [*RopeScaling.__dataclass_fields__, "type", "rope_theta"]
    unknown = [name for name in table if name not in known]
    if unknown:
        raise CheckpointError(f"rope_scaling has {unknown[0]!r}, which is not supported")
    if kind == "default":
        return None
    numbers = {
        name: _number(name, value)
        for name, value in table.items()
        if name not in ("rope_type", "type", "rope_theta", "truncate") and value is not None
    }
    return _complete(str(kind), numbers, table, config)


def _complete(
    kind: str, numbers: dict[str, Any], table: Mapping[str, Any], config: Mapping[str, Any]
) -> RopeScaling:
    """The scaling with what its type needs filled in from the config, or refused."""
    longest = config.get("max_position_embeddings", config.get("max_sequence_length"))
    if kind == "yarn":  # as transformers fills in: the ratio of the two lengths, or the length
        original = numbers.get("original_max_position_embeddings")
        if "factor" not in numbers and original is not None:
            numbers["factor"] = _number("max_position_embeddings", longest) / original
        if original is None:
            numbers["original_max_position_embeddings"] = longest
    needed = {"llama3": ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor")}
    for name in ("factor", *needed.get(kind, ())):
        if name not in numbers:
            raise CheckpointError(f"rope_scaling of type {kind!r} lacks {name}")
    truncate = table.get("truncate", True)
    if not isinstance(truncate, bool):
        raise CheckpointError(f"truncate of rope_scaling must be true or false, not {truncate!r}")
    original = numbers.get("original_max_position_embeddings")
    numbers["original_max_position_embeddings"] = None if original is None else int(original)
    scaling = RopeScaling(kind, truncate=truncate, **numbers)
    if kind == "llama3" and scaling.high_freq_factor <= scaling.low_freq_factor:
        raise CheckpointError(
            "high_freq_factor of rope_scaling must be above low_freq_factor, not "
            f"{scaling.high_freq_factor} and {scaling.low_freq_factor}"
        )
    return scaling


def _number(name: str, value: Any) -> float:
    try:
        number: float = fit(name, value, float)
    except OptionError as error:
        raise CheckpointError(str(error)) from error
    if not (number > 0 and math.isfinite(number)):
        raise CheckpointError(f"{name} must be a number above 0, and finite, not {value!r}")
    return number
