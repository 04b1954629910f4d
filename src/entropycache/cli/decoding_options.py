"""The decoding options of a command, made from ``GenerationConfig``.

An option that is added there is an option of every command without further code.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from dataclasses import fields
from typing import Annotated, Any

import typer

from entropycache.config.generation import GenerationConfig


def decoding_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return ``command`` with an option for every field of ``GenerationConfig``.

    The command receives those that were given as its argument ``options``, a dict.
    """
    types = typing.get_type_hints(GenerationConfig)
    own = [
        p
        for p in inspect.signature(command, eval_str=True).parameters.values()
        if p.name != "options"
    ]
    added = [
        inspect.Parameter(
            item.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                _option_type(item.name, types[item.name]), typer.Option(help=_help(item))
            ],
        )
        for item in fields(GenerationConfig)
    ]

    def wrapper(**values: Any) -> None:
        options = {p.name: values.pop(p.name) for p in added}
        command(**values, options={k: v for k, v in options.items() if v not in (None, [])})

    wrapper.__name__, wrapper.__doc__ = command.__name__, command.__doc__
    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + added
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapper


def _option_type(name: str, declared: Any) -> Any:
    plain = [kind for kind in typing.get_args(declared) if kind is not type(None)]
    return (list[str] if name == "stop" else plain[0] if plain else declared) | None


def _help(item: Any) -> str:
    shown = "" if item.default in (None, ()) else f" (default {str(item.default).lower()})"
    return str(item.metadata["help"]) + shown
