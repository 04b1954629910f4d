"""The options of a request are those of ``GenerationConfig``, whatever these are."""

from __future__ import annotations

from dataclasses import dataclass, fields

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from entropycache import GenerationConfig
from entropycache.config.options import Bounds, bounds_of, option
from entropycache.errors import OptionError
from entropycache.server.decoding_options import NARROWER, REQUEST_NAMES, options_model
from entropycache.server.schema import CanvasRequest, ChatRequest, CompletionRequest

OPTIONS = {item.name: item for item in fields(GenerationConfig)}
LIMITS = {"minimum": "ge", "exclusiveMinimum": "gt", "maximum": "le", "exclusiveMaximum": "lt"}
BODIES = {
    ChatRequest: {"messages": [{"role": "user", "content": "hello"}]},
    CompletionRequest: {"prompt": "hello"},
    CanvasRequest: {"prompt": "hello"},
}


@dataclass(frozen=True)
class Wider(GenerationConfig):
    """The options and two more, as a later version may have them."""

    patience: int | None = option(None, "steps to wait", Bounds(ge=2, lt=9))
    marks: tuple[str, ...] = option((), "texts to look for")


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


@pytest.mark.parametrize("kind", BODIES)
def test_every_option_is_a_field_of_every_request(kind):
    wanted = {REQUEST_NAMES.get(name, name) for name in OPTIONS}
    assert wanted <= set(kind.model_fields)
    assert not set(REQUEST_NAMES) & set(kind.model_fields)
    assert all(kind.model_fields[name].default is None for name in wanted)


@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize("name", [name for name in OPTIONS if name not in NARROWER])
def test_bounds_and_help_of_a_field_are_those_of_the_option(kind, name):
    item = OPTIONS[name]
    shown = kind.model_json_schema()["properties"][REQUEST_NAMES.get(name, name)]
    value, nothing = shown["anyOf"]
    assert nothing == {"type": "null"}
    bounds = {limit: getattr(bounds_of(item), key) for limit, key in LIMITS.items()}
    assert {limit: value.get(limit) for limit in LIMITS} == bounds
    if name != "seed":  # of several choices only the first has it
        assert shown["description"] == item.metadata["help"]


EDGES = (-1.0, 0.0, 1e-300, 1e-9, 1e-6, 1e-3, 0.5, 1.0, 2.0, 100.0, 1e6, 1e9, 1e300)


@pytest.mark.parametrize("name", ["sigma", "alg_temp", "temperature"])
def test_a_narrower_limit_accepts_nothing_that_the_option_refuses(name):
    taken = [number for number in EDGES if accepts(name, number)]
    held = [number for number in EDGES if bounds_of(OPTIONS[name]).hold(number)]
    assert 1.0 in taken and set(taken) < set(held)
    assert not accepts(name, float("inf")) and not accepts(name, float("nan"))


def accepts(name: str, value: object) -> bool:
    try:
        CanvasRequest(prompt="hello", **{name: value})
    except ValidationError:
        return False
    return True


def test_every_exception_is_an_option():
    assert set(NARROWER) | set(REQUEST_NAMES) <= set(OPTIONS)


@pytest.mark.parametrize("kind", BODIES)
def test_options_go_by_the_engines_names_and_those_left_out_do_not_appear(kind):
    given = {"max_tokens": 5, "window": 4, "temperature": 0.0, "early_stop": False}
    found = kind(**BODIES[kind], **given, user="me").options()
    assert found == {"max_new_tokens": 5, "window": 4, "temperature": 0.0, "early_stop": False}
    assert kind(**BODIES[kind]).options() == {}


def test_an_option_that_is_added_is_a_field_with_its_bounds_and_help():
    model = options_model(Wider, Strict)
    patience, marks = (
        model.model_json_schema()["properties"][name] for name in ("patience", "marks")
    )
    assert patience["description"] == "steps to wait"
    assert patience["anyOf"][0] == {"type": "integer", "minimum": 2, "exclusiveMaximum": 9}
    assert marks["description"] == "texts to look for"
    assert (model(patience=2).patience, model(patience=8, marks=["a"]).marks) == (2, ["a"])
    assert model().patience is None
    for wrong in ({"patience": 1}, {"patience": 9}, {"patience": "2"}, {"marks": [1]}):
        with pytest.raises(ValidationError, match=next(iter(wrong))):
            model(**wrong)
    with pytest.raises(OptionError, match="^patience must be 2 or more and below 9, not 1$"):
        Wider(patience=1)
