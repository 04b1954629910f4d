"""The one parser of specs such as ``entropy:tau=1.0,k=64``: a name, and fields of a dataclass."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from entropycache.errors import OptionError


@dataclass(frozen=True)
class Spec:
    """A name and its options as written: ``name`` or ``name:key=value,key=value``."""

    name: str
    options: Mapping[str, str]

    @classmethod
    def parse(cls, text: str, known: str | None = None) -> Spec:
        """Split a spec; values stay text. A ``known`` name at its begin may itself hold a colon."""
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


T = TypeVar("T")


def build(kind: type[T], spec: Spec) -> T:
    """An instance of a dataclass from a spec; an option it lacks, or a value of the wrong type, is
    an error.
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


def converted(kind: type, spec: Spec) -> dict[str, Any]:
    """A spec's options as values of the types that the dataclass's fields declare; the same errors
    as ``build``'s.
    """
    types = typing.get_type_hints(kind)
    fields = [f.name for f in dataclasses.fields(kind) if f.init]
    values = {}
    for key, text in spec.options.items():
        if key not in fields:
            known = ", ".join(fields) or "none"
            raise OptionError(f"{spec.name}: unknown option {key!r}; known: {known}")
        declared = [t for t in typing.get_args(types[key]) if t is not type(None)] or [types[key]]
        values[key] = _convert(f"{spec.name}: {key}", text, declared[0])
    return values


def _convert(what: str, text: str, kind: type) -> Any:
    if kind is bool and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if kind is not bool:
        try:
            return kind(text)
        except ValueError:
            pass
    accepted = {int: "a whole number", float: "a number", bool: "true or false"}.get(
        kind, kind.__name__
    )
    raise OptionError(f"{what} must be {accepted}, not {text!r}")
