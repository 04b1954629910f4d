"""Settings as frozen values, and their checks.

The defaults that library, command line and server share stand in ``GenerationConfig`` and nowhere
else.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from numbers import Integral, Real
from typing import Any

from entropycache.errors import OptionError


class Confidence(StrEnum):
    """What candidates are ranked by: the token's probability, its lead over the runner-up, or
    negative entropy.
    """

    PROBABILITY = "probability"
    MARGIN = "margin"
    ENTROPY = "entropy"


@dataclass(frozen=True)
class Sampling:
    """How a candidate token is drawn from a row of logits, and how sure it is said to be."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0
    confidence: Confidence = Confidence.PROBABILITY


def _help(text: str) -> dict[str, str]:
    return {"help": text}


@dataclass(frozen=True)
class GenerationConfig:
    """Every decoding option. Immutable, checked when made; wrong values raise ``OptionError``.

    ``block_length`` or ``window`` chooses the window rule, and one of ``tokens_per_step``,
    ``steps``, ``threshold``, ``factor`` the commit rule; with none given, a window of 32 and a
    threshold of 0.9. ``max_new_tokens`` limits the text, not the canvas: decoding ends once that
    many leading positions are committed.
    """

    policy: str = field(
        default="entropy", metadata=_help("cache policy, e.g. none or entropy:tau=1.0,k=64")
    )
    gen_length: int = field(default=256, metadata=_help("masked positions to fill"))
    block_length: int | None = field(
        default=None, metadata=_help("semi-autoregressive blocks of this length")
    )
    window: int | None = field(
        default=None, metadata=_help("sliding window over this many leftmost masks (default 32)")
    )
    tokens_per_step: int | None = field(
        default=None, metadata=_help("commit this many tokens a step")
    )
    steps: int | None = field(
        default=None, metadata=_help("LLaDA's schedule: this many steps in all")
    )
    threshold: float | None = field(
        default=None, metadata=_help("commit every token at least this probable (default 0.9)")
    )
    factor: float | None = field(
        default=None, metadata=_help("commit rank n while its confidence >= 1 - factor/(n+1)")
    )
    confidence: Confidence = field(
        default=Confidence.PROBABILITY, metadata=_help("what candidates are ranked by")
    )
    temperature: float = field(default=0.0, metadata=_help("0 takes the most probable token"))
    top_p: float = field(
        default=1.0, metadata=_help("sample from the smallest set of tokens this probable")
    )
    top_k: int = field(default=0, metadata=_help("sample from this many tokens; 0 is no limit"))
    seed: int = field(default=0, metadata=_help("seed of the sampler"))
    early_stop: bool = field(default=True, metadata=_help("end once the answer is complete"))
    stop: tuple[str, ...] = field(
        default=(), metadata=_help("end the answer before this string; may be repeated")
    )
    max_new_tokens: int | None = field(default=None, metadata=_help("limit of the answer's tokens"))

    DEFAULT_WINDOW: typing.ClassVar[int] = 32
    DEFAULT_THRESHOLD: typing.ClassVar[float] = 0.9

    def __post_init__(self) -> None:
        _check_types(self)
        self._one_of("block_length", "window")
        self._one_of("tokens_per_step", "steps", "threshold", "factor")
        for name in (
            "gen_length",
            "block_length",
            "window",
            "tokens_per_step",
            "steps",
            "max_new_tokens",
        ):
            self._require(name, "1 or more", lambda v: v >= 1)
        self._require("threshold", "a probability above 0 and at most 1", lambda v: 0 < v <= 1)
        self._require("factor", "above 0", lambda v: v > 0)
        self._require("temperature", "0 or more, and finite", lambda v: 0 <= v < math.inf)
        self._require("top_p", "above 0 and at most 1", lambda v: 0 < v <= 1)
        self._require("top_k", "0 (no limit) or more", lambda v: v >= 0)
        self._require("seed", "from 0 to 2**63 - 1", lambda v: 0 <= v < 2**63)
        if "" in self.stop:
            raise OptionError("stop must not hold an empty string")
        if self.confidence is Confidence.ENTROPY and not (self.tokens_per_step or self.steps):
            raise OptionError(
                "confidence=entropy ranks by negative entropy, which no threshold or factor "
                "applies to; give tokens_per_step or steps, or use probability or margin"
            )
        if self.steps and self.block_length and self.steps % self.blocks:
            raise OptionError(
                f"steps={self.steps} cannot be spread over {self.blocks} blocks; "
                f"give a multiple of {self.blocks}"
            )

    @classmethod
    def of(cls, base: GenerationConfig | None = None, **options: Any) -> GenerationConfig:
        """``base`` (or the defaults) with ``options`` replaced; unknown names are errors that list
        the known ones.

        An option replaces its alternatives: a ``threshold`` given here takes the place of the
        base's ``steps``.
        """
        known = [item.name for item in dataclasses.fields(cls)]
        for name in options:
            if name not in known:
                raise OptionError(f"unknown option {name!r}; known: {', '.join(known)}")
        values = {name: getattr(base, name) for name in known} if base else {}
        for group in (
            ("block_length", "window"),
            ("tokens_per_step", "steps", "threshold", "factor"),
        ):
            if any(options.get(name) is not None for name in group):
                values |= dict.fromkeys(group)
        return cls(**(values | options))

    @property
    def blocks(self) -> int:
        """How many blocks the generated region has; one under a sliding window."""
        return math.ceil(self.gen_length / self.block_length) if self.block_length else 1

    @property
    def sampling(self) -> Sampling:
        """The part that the scoring of logits needs."""
        return Sampling(self.temperature, self.top_p, self.top_k, self.seed, self.confidence)

    def _one_of(self, *names: str) -> None:
        given = [
            f"{name}={getattr(self, name)}" for name in names if getattr(self, name) is not None
        ]
        if len(given) > 1:
            raise OptionError(
                f"{' and '.join(given)} exclude each other; give one of {', '.join(names)}"
            )

    def _require(self, name: str, accepted: str, holds: Callable[[Any], bool]) -> None:
        value = getattr(self, name)
        if value is not None and not holds(value):
            raise OptionError(f"{name} must be {accepted}, not {value}")


def _check_types(config: GenerationConfig) -> None:
    """Turn what JSON and the command line give into the declared types, or say what is accepted."""
    types = typing.get_type_hints(GenerationConfig)
    for item in dataclasses.fields(config):
        value, declared = getattr(config, item.name), types[item.name]
        options = typing.get_args(declared) or (declared,)
        if value is None and type(None) in options:
            continue
        kind = options[0]
        object.__setattr__(config, item.name, _as_type(item.name, value, kind))


def _as_type(name: str, value: Any, kind: Any) -> Any:
    if name == "stop":
        strings = (value,) if isinstance(value, str) else value
        if not isinstance(strings, (list, tuple)) or not all(isinstance(s, str) for s in strings):
            raise OptionError(f"stop must be a string or a list of strings, not {value!r}")
        return tuple(strings)
    if kind is Confidence:
        if value not in [c.value for c in Confidence]:
            raise OptionError(f"confidence must be one of {', '.join(Confidence)}, not {value!r}")
        return Confidence(value)
    if kind is float and isinstance(value, Real) and not isinstance(value, bool):
        return float(value)
    if kind is int and isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    accepted = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}[kind]
    raise OptionError(f"{name} must be {accepted}, not {value!r}")
