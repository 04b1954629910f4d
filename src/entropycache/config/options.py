"""Options: dataclass fields that carry their help text and the numbers they accept.

Library, command line and server all read the field, so that an option is written down once.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from entropycache.errors import OptionError


@dataclass(frozen=True)
class Bounds:
    """The numbers that an option accepts: at least ``ge``, above ``gt``, at most ``le``, below
    ``lt``, and no infinity where it must be ``finite``. A bound that is ``None`` is none.

    ``words`` take the place of the derived ones in an error, for bounds that have a meaning of
    their own.
    """

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    finite: bool = False
    words: str | None = None

    def hold(self, value: float) -> bool:
        """True if a number is within the bounds; never for NaN where there is any bound."""
        return (
            (self.ge is None or value >= self.ge)
            and (self.gt is None or value > self.gt)
            and (self.le is None or value <= self.le)
            and (self.lt is None or value < self.lt)
            and (not self.finite or math.isfinite(value))
        )

    @property
    def accepted(self) -> str:
        """The bounds in words, as in ``above 0 and at most 1``."""
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
    """A dataclass field with a default, help text of a few words, and bounds if it is a number.

    The result is declared ``Any`` so that it can stand beside any type, as that of
    ``dataclasses.field`` can.
    """
    return dataclasses.field(default=default, metadata={"help": help, "bounds": bounds or Bounds()})


def bounds_of(item: dataclasses.Field[Any]) -> Bounds:
    """The bounds of a dataclass field; none where ``option`` did not make it."""
    found = item.metadata.get("bounds", Bounds())
    assert isinstance(found, Bounds)
    return found


def check_bounds(config: Any) -> None:
    """Raise ``OptionError`` for the first field of a dataclass whose number is out of bounds, with
    what is accepted and what was given. ``None`` is within any bounds.
    """
    for item in dataclasses.fields(config):
        value, bounds = getattr(config, item.name), bounds_of(item)
        if value is not None and not bounds.hold(value):
            raise OptionError(f"{item.name} must be {bounds.accepted}, not {value}")
