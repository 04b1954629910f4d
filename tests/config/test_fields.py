"""The one reader of typed values: from JSON and from text, by declared type."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
import pytest

from entropycache.config.fields import Spec, build, coerce_fields, converted, fit, read_text
from entropycache.errors import OptionError


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


NUMBER, WHOLE, TRUTH = "a number", "a whole number", "true or false"
TEXTS = "a string or a list of strings"


@pytest.mark.parametrize(
    ("value", "declared", "expected"),
    [
        (3, int, 3),
        (np.int64(3), int, 3),
        (3, float, 3.0),
        (np.float32(0.5), float, 0.5),
        (math.inf, float, math.inf),
        (False, bool, False),
        ("", str, ""),
        ("red", Colour, Colour.RED),
        (Colour.BLUE, Colour, Colour.BLUE),
        ("a", tuple[str, ...], ("a",)),
        (["a", "b"], tuple[str, ...], ("a", "b")),
        ((), tuple[str, ...], ()),
        (None, int | None, None),
        (4, int | None, 4),
        ("red", Colour | None, Colour.RED),
        (True, bool | None, True),
        (2.5, int | float, 2.5),
        (Path("x"), Path, Path("x")),
    ],
)
def test_a_value_that_fits_comes_back_in_exactly_the_declared_type(value, declared, expected):
    found = fit("x", value, declared)
    assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize(
    ("value", "declared", "accepted"),
    [
        (1.5, int, WHOLE),
        (1.0, int, WHOLE),
        (True, int, WHOLE),
        ("1", int, WHOLE),
        (True, float, NUMBER),
        ("1", float, NUMBER),
        (1j, float, NUMBER),
        (10**400, float, NUMBER),
        (1, bool, TRUTH),
        ("true", bool, TRUTH),
        (1, str, "text"),
        (None, int, WHOLE),
        (None, str, "text"),
        (None, tuple[str, ...], TEXTS),
        (["a", 1], tuple[str, ...], TEXTS),
        ({"a"}, tuple[str, ...], TEXTS),
        ("green", Colour, "one of red, blue"),
        ([], Colour | None, "one of red, blue"),
        ("a", int | None, WHOLE),
        ("a", int | float, "a whole number or a number"),
        ("a", Path, "Path"),
        ("a", list[int], "list[int]"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_what_is_accepted(value, declared, accepted):
    with pytest.raises(OptionError) as found:
        fit("x", value, declared)
    assert str(found.value) == f"x must be {accepted}, not {value!r}"


def test_nan_is_a_number_and_left_to_the_options_own_bounds():
    assert math.isnan(fit("x", math.nan, float))
    assert math.isnan(read_text("x", "nan", float))


@pytest.mark.parametrize(
    ("text", "declared", "expected"),
    [
        ("3", int, 3),
        ("-3", int | None, -3),
        ("3", float, 3.0),
        ("1e-3", float | None, 0.001),
        ("inf", float, math.inf),
        ("True", bool, True),
        ("false", bool | None, False),
        ("3", str, "3"),
        ("red", Colour | None, Colour.RED),
        ("a", tuple[str, ...], ("a",)),
        ("2.5", int | float, 2.5),
        ("a/b", Path, Path("a/b")),
    ],
)
def test_text_is_read_as_a_value_of_the_declared_type(text, declared, expected):
    found = read_text("x", text, declared)
    assert found == expected and isinstance(found, type(expected))


@pytest.mark.parametrize(
    ("text", "declared", "accepted"),
    [
        ("1.5", int, WHOLE),
        ("none", int | None, WHOLE),
        ("high", float, NUMBER),
        ("1", bool, TRUTH),
        ("yes", bool, TRUTH),
        ("green", Colour, "one of red, blue"),
    ],
)
def test_text_and_json_are_refused_with_the_same_sentence(text, declared, accepted):
    said = f"x must be {accepted}, not {text!r}"
    for reader in (fit, read_text):
        with pytest.raises(OptionError) as found:
            reader("x", text, declared)
        assert str(found.value) == said


@dataclass(frozen=True)
class Options:
    """Options of no policy there is."""

    rate: float
    count: int = 2
    colour: Colour | None = None
    names: tuple[str, ...] = ()


def test_a_spec_becomes_the_dataclass_it_names():
    spec = Spec.parse(" own:rate=1 , count=3,colour=blue ")
    assert build(Options, spec) == Options(1.0, 3, Colour.BLUE)
    assert Spec.parse("a:b:rate=1", known="a:b") == Spec("a:b", {"rate": "1"})
    assert converted(Options, Spec.parse("own")) == {}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("own", "own: option 'rate' must be given"),
        ("own:rate=x", "own: rate must be a number, not 'x'"),
        ("own:colour=green", "own: colour must be one of red, blue, not 'green'"),
        ("own:size=1", "own: unknown option 'size'; known: rate, count, colour, names"),
        ("own:rate", "'own:rate': expected name:key=value,key=value but found 'rate'"),
        ("own:rate=1,rate=2", "'own:rate=1,rate=2': option 'rate' is given twice"),
    ],
)
def test_a_wrong_spec_is_refused_in_one_sentence(spec, said):
    with pytest.raises(OptionError) as found:
        build(Options, Spec.parse(spec))
    assert str(found.value) == said


def test_fields_of_a_frozen_dataclass_are_converted_in_place():
    options = Options(1, np.int32(4), "red", ["a"])
    coerce_fields(options)
    assert options == Options(1.0, 4, Colour.RED, ("a",))
    assert (type(options.rate), type(options.count)) == (float, int)
    with pytest.raises(OptionError, match="count must be a whole number, not None"):
        coerce_fields(Options(1.0, None))
