"""Options: dataclass fields that carry their help text and the numbers that they accept.

Library, command line and server all read the same field, so each option is written down once.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from entropycache.errors import OptionError


@dataclass(frozen=True)
class Bounds:
    """The range of numbers that an option accepts.

    A number must be at least ``ge``, above ``gt``, at most ``le`` and below ``lt``; a bound of
    ``None`` is not checked. Infinities are refused where ``finite`` is true. ``words`` describe the
    range in error messages; without them the description is made from the bounds.
    """

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    finite: bool = False
    words: str | None = None

    def hold(self, value: float) -> bool:
        """True if a number is within the bounds. NaN is outside of every bound."""
        return (
            (self.ge is None or value >= self.ge)
            and (self.gt is None or value > self.gt)
            and (self.le is None or value <= self.le)
            and (self.lt is None or value < self.lt)
            and (not self.finite or math.isfinite(value))
        )

    @property
    def accepted(self) -> str:
        """The bounds in words, for example ``above 0 and at most 1``."""
        if self.words is not None:
            return self.words
        sides = (
            (self.gt, f"above {self.gt}"),
            (self.ge, f"{self.ge} or more"),
            (self.lt, f"below {self.lt}"),
            (self.le, f"at most {self.le}"),
        )
        numbers = " and ".join(text for bound, text in sides if bound is not None)
        return ", and ".join(part for part in (numbers, "finite" * self.finite) if part)


def option(default: Any, help: str, bounds: Bounds | None = None) -> Any:
    """A dataclass field with a default, a few words of help, and bounds if it is a number.

    The return type is ``Any`` so that a field of any declared type accepts it, as with
    ``dataclasses.field``.
    """
    return dataclasses.field(default=default, metadata={"help": help, "bounds": bounds or Bounds()})


def bounds_of(item: dataclasses.Field[Any]) -> Bounds:
    """The bounds of a dataclass field; empty ones where ``option`` did not make the field."""
    bounds = item.metadata.get("bounds", Bounds())
    assert isinstance(bounds, Bounds)
    return bounds


def check_bounds(config: Any) -> None:
    """Check the numbers of a dataclass against the bounds of their fields.

    Raises ``OptionError`` for the first number out of bounds, with what was given and what is
    accepted. ``None`` is within any bounds.
    """
    for item in dataclasses.fields(config):
        value, bounds = getattr(config, item.name), bounds_of(item)
        if value is not None and not bounds.hold(value):
            raise OptionError(f"{item.name} must be {bounds.accepted}, not {value}")
