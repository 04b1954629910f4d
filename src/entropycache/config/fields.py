"""Values as JSON and the command line give them, turned into the declared types of a frozen
dataclass; it knows types, not options.
"""

from __future__ import annotations

import dataclasses
import typing
from enum import StrEnum
from numbers import Integral, Real
from typing import Any

from entropycache.errors import OptionError


def coerce_fields(config: Any) -> None:
    """Replace each field's value by one of its declared type; raises ``OptionError`` with what is
    accepted where that cannot be.
    """
    types = typing.get_type_hints(type(config))
    for item in dataclasses.fields(config):
        value, declared = getattr(config, item.name), types[item.name]
        options = typing.get_args(declared) or (declared,)
        if value is None and type(None) in options:
            continue
        texts = typing.get_origin(declared) is tuple
        coerced = _texts(item.name, value) if texts else _one(item.name, value, options[0])
        object.__setattr__(config, item.name, coerced)


def _texts(name: str, value: Any) -> tuple[str, ...]:
    strings = (value,) if isinstance(value, str) else value
    if not isinstance(strings, (list, tuple)) or not all(isinstance(s, str) for s in strings):
        raise OptionError(f"{name} must be a string or a list of strings, not {value!r}")
    return tuple(strings)


def _one(name: str, value: Any, kind: Any) -> Any:
    if issubclass(kind, StrEnum):
        if value not in [c.value for c in kind]:
            raise OptionError(f"{name} must be one of {', '.join(kind)}, not {value!r}")
        return kind(value)
    if kind is float and isinstance(value, Real) and not isinstance(value, bool):
        return float(value)
    if kind is int and isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    accepted = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}[kind]
    raise OptionError(f"{name} must be {accepted}, not {value!r}")
