"""Reading of values that must fit the declared types of a dataclass: from JSON, Python or specs.

A spec is text such as ``entropy:tau=1.0,k=64``. The module knows types and text, not options.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, TypeVar

from entropycache.errors import OptionError

T = TypeVar("T")


def coerce_fields(config: Any) -> None:
    """Convert the value of each field of a dataclass, frozen or not, to the field's declared type.

    Raises ``OptionError`` with the field's name, the value and what is accepted.
    """
    types = typing.get_type_hints(type(config))
    for item in dataclasses.fields(config):
        value = fit(item.name, getattr(config, item.name), types[item.name])
        # Called from ``__post_init__``, where a frozen dataclass refuses plain assignment too.
        object.__setattr__(config, item.name, value)


def fit(name: str, value: Any, declared: Any) -> Any:
    """Return ``value`` as one of the declared type; another kind of number is converted.

    ``declared`` is a class, ``tuple[str, ...]``, or a union of these and ``None``. NaN and
    infinities count as numbers, ``True`` and ``False`` do not. Raises ``OptionError`` where nothing
    fits; its sentence starts with ``name``.
    """
    kinds = _alternatives(declared)
    if value is None and NoneType in kinds:
        return None
    wanted = [kind for kind in kinds if kind is not NoneType]
    for kind in wanted:
        try:
            return _converted_to(kind, value)
        except (TypeError, ValueError, OverflowError):
            continue
    accepted = " or ".join(_accepted(kind) for kind in wanted)
    raise OptionError(f"{name} must be {accepted}, not {value!r}")


def read_text(name: str, text: str, declared: Any) -> Any:
    """Return the value of the declared type that ``text`` spells, for example 64 for ``"64"``.

    Raises ``OptionError`` as ``fit`` does.
    """
    # ``is not``: ``_spelt`` gives the very same text back where it spells nothing of a type.
    spelt = (_spelt(text, kind) for kind in _alternatives(declared) if kind is not NoneType)
    return fit(name, next((value for value in spelt if value is not text), text), declared)


def _alternatives(declared: Any) -> tuple[Any, ...]:
    union = typing.get_origin(declared) in (typing.Union, UnionType)
    return typing.get_args(declared) if union else (declared,)


def _converted_to(kind: Any, value: Any) -> Any:
    """The value as ``kind``; raises ``TypeError``, ``ValueError`` or ``OverflowError``."""
    if typing.get_origin(kind) is tuple:
        texts = (value,) if isinstance(value, str) else value
        if isinstance(texts, (list, tuple)) and all(isinstance(text, str) for text in texts):
            return tuple(texts)
    elif issubclass(kind, StrEnum):
        return kind(value)
    elif kind in (int, float):
        # Python counts True as 1, and numpy's numbers are neither int nor, mostly, float.
        if isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool):
            return kind(value)
    elif isinstance(value, kind):
        return value
    raise TypeError(kind)


def _accepted(kind: Any) -> str:
    """The values that a type accepts, in words."""
    if typing.get_origin(kind) is tuple:
        return "a string or a list of strings"
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return f"one of {', '.join(kind)}"
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    return words.get(kind) or (kind.__name__ if isinstance(kind, type) else str(kind))


def _spelt(text: str, kind: Any) -> Any:
    """The value of ``kind`` that ``text`` spells, or ``text`` itself where it spells none."""
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        return text if typing.get_origin(kind) is tuple else kind(text)
    except (TypeError, ValueError):
        return text


@dataclass(frozen=True)
class Spec:
    """A name and its options as text, written ``name`` or ``name:key=value,key=value``."""

    name: str
    options: Mapping[str, str]

    @classmethod
    def parse(cls, text: str, known: str | None = None) -> Spec:
        """Split a spec into its name and its options; the values stay text.

        Without ``known`` the name ends at the first colon. ``known`` is a name that the text starts
        with and that may itself hold colons. Raises ``OptionError`` for an option without a value
        and for an option that is given twice.
        """
        name, colon, rest = text.strip().partition(":")
        if known is not None:
            rest = text.strip().removeprefix(known)
            name, colon, rest = known, rest[:1], rest[1:]
        options: dict[str, str] = {}
        for part in rest.split(",") if colon else []:
            key, equals, value = (piece.strip() for piece in part.partition("="))
            if not (key and equals and value):
                raise OptionError(f"{text!r}: expected name:key=value,key=value but found {part!r}")
            if key in options:
                raise OptionError(f"{text!r}: option {key!r} is given twice")
            options[key] = value
        return cls(name, options)


def build(kind: type[T], spec: Spec) -> T:
    """Return an instance of the dataclass ``kind`` with a spec's options as its fields.

    Raises ``OptionError`` as ``converted`` does, and for a field without a default that the spec
    does not give.
    """
    assert dataclasses.is_dataclass(kind)
    values = converted(kind, spec)
    missing = [
        f.name
        for f in dataclasses.fields(kind)
        if f.init and f.name not in values and f.default is f.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise OptionError(f"{spec.name}: option {missing[0]!r} must be given")
    return kind(**values)


def converted(kind: Any, spec: Spec) -> dict[str, Any]:
    """Return a spec's options as values of the types that the fields of dataclass ``kind`` declare.

    Raises ``OptionError`` for an unknown option, with the known ones, and for a value that does not
    fit the type.
    """
    types = typing.get_type_hints(kind)
    fields = [f.name for f in dataclasses.fields(kind) if f.init]
    values = {}
    for key, text in spec.options.items():
        if key not in fields:
            known = ", ".join(fields) or "none"
            raise OptionError(f"{spec.name}: unknown option {key!r}; known: {known}")
        values[key] = read_text(f"{spec.name}: {key}", text, types[key])
    return values
