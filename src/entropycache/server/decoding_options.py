"""The decoding options as fields of a request, made from ``GenerationConfig``.

An option that is added there is accepted here without further code. The tables hold the few that a
request limits further, describes differently or calls by another name.
"""

from __future__ import annotations

import dataclasses
import typing
from enum import StrEnum
from types import NoneType
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, create_model

from entropycache.config.generation import GenerationConfig
from entropycache.config.options import bounds_of

MAX_STOPS = 16
"""The most stop strings of a request; each is searched for as the answer grows."""
LEAST = 1e-6
"""The smallest temperature above 0; divided by less, scores may overflow."""


def _cool(value: float) -> float:
    if value and not LEAST <= value <= 100:
        raise ValueError(f"a temperature is 0, or from {LEAST:g} to 100")
    return value


Cool = Annotated[float, Field(ge=0), AfterValidator(_cool)]

REQUEST_NAMES = {"max_new_tokens": "max_tokens"}
"""The options that have another name in a request, and that name, which is OpenAI's."""

# Each must lie within the bounds of GenerationConfig. A stranger's numbers are kept so far from the
# ends of a float that no square or quotient of them overflows, and texts and lists are kept short.
NARROWER: dict[str, Any] = {
    "policy": Annotated[str, Field(max_length=200)],
    "sigma": Annotated[float, Field(ge=1e-3, le=1e6)],
    "alg_temp": Cool,
    "temperature": Cool,
    "stop": str | Annotated[list[str], Field(max_length=MAX_STOPS)],
}

_DESCRIPTIONS = {
    "seed": "of the first choice; each further one adds 1",
    "stop": "end the answer before any of these strings",
}


def options_model(config: type[GenerationConfig], base: type[BaseModel]) -> type[BaseModel]:
    """Make a request model: ``base`` with a field for every option of ``config``.

    Each field has the option's type, bounds and help text. A field that is left out of a request is
    ``None``.
    """
    declared = typing.get_type_hints(config)
    model_fields: dict[str, Any] = {}
    for item in dataclasses.fields(config):
        kind = NARROWER.get(item.name) or _bounded(item, declared[item.name])
        text = _DESCRIPTIONS.get(item.name, item.metadata["help"])
        name = REQUEST_NAMES.get(item.name, item.name)
        model_fields[name] = (kind | None, Field(None, description=text))
    return create_model("Options", __base__=base, __module__=__name__, **model_fields)


def _bounded(item: dataclasses.Field[Any], declared: Any) -> Any:
    """The JSON type of an option, with the option's bounds."""
    if typing.get_origin(declared) is tuple:
        return str | list[str]
    kind = next(k for k in (*typing.get_args(declared), declared) if k is not NoneType)
    if issubclass(kind, StrEnum):
        kind = str  # GenerationConfig refuses a wrong word with a list of the right ones
    bounds = bounds_of(item)
    return Annotated[kind, Field(ge=bounds.ge, gt=bounds.gt, le=bounds.le, lt=bounds.lt)]
