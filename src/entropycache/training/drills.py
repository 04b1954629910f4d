"""Drills: exercises that are no tasks, for training alone.

Each teaches something that the tasks need, with fewer rows than the tasks take for it. Nothing is
evaluated on them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from entropycache.training.tasks import worked


class Drill(NamedTuple):
    """A question, its answer, and the worked response."""

    question: str
    answer: str
    response: str


def _drill(question: str, steps: Sequence[str], answer: str) -> Drill:
    return Drill(question, answer, worked(steps, answer))


COPYING = "copying"
"""Lists of words and numbers to be repeated.

They teach the network early to look things up in the prompt, which every task needs.
"""


def _copying(rng: random.Random, words: Sequence[str]) -> Drill:
    count = rng.randint(2, 10)
    items = [rng.choice((rng.choice(words), str(rng.randrange(10_000)))) for _ in range(count)]
    text = ", ".join(items)
    return _drill(f"Copy this list: {text}", [], text)


FACTS = "facts"
"""Single steps in the wording of ``products`` and ``chain_sum``, with two numbers.

The numbers are those of the tasks' second steps. A network could learn whole problems by heart;
with these it must compute.
"""


def _signed_sum(rng: random.Random, left: int, right: int) -> tuple[str, int]:
    """A sum or a difference of the two, drawn at random, with its result."""
    sign = rng.choice("+-")
    return f"{left} {sign} {right}", left + right if sign == "+" else left - right


def _facts(rng: random.Random, words: Sequence[str]) -> Drill:
    if rng.random() < 0.7:
        left, right = rng.randrange(10) * rng.randrange(10), rng.randrange(10)
        step, result = f"{left} * {right}", left * right
        question = f"Solve the following multiplication: {step}. "
        question += "Give only the result as your final answer."
    else:
        step, result = _signed_sum(rng, rng.randint(-20, 30), rng.randrange(10))
        question = f"State the final answer to the following arithmetic problem: {step} ="
    return _drill(question, [f"{step} = {result}"], str(result))


SHEETS = "sheets"
"""Single steps too, many to a question: calculations of ``gsm_symbolic`` and ``simple_equations``.

Each takes a third of the rows that a step of ``facts`` does.
"""


def _number(rng: random.Random, digits: int) -> int:
    """A number of 1 to ``digits`` digits, all lengths alike; some of the longer ones are round."""
    length = rng.randint(1, digits)
    number = rng.randrange(10 ** (length - 1), 10**length)
    return number * rng.choice((1, 1, 1, 10, 100, 1000)) if length > 2 else number


def _step(rng: random.Random) -> tuple[str, int]:
    """One calculation in the form of worked answers, with its result."""
    kind = rng.choices(("+", "-", "*", "/", "total", "solution"), (5, 5, 5, 4, 1.5, 1.5))[0]
    if kind == "+":
        left, right = _number(rng, 4), _number(rng, 4)
        return f"{left} + {right}", left + right
    if kind == "-":
        left, right = sorted((_number(rng, 4), _number(rng, 4)), reverse=True)
        return f"{left} - {right}", left - right
    if kind == "*":
        left, right = _number(rng, 4), rng.randint(1, 9) * rng.choice((1, 1, 1, 1, 10, 10, 100))
        left, right = rng.choice(((left, right), (left, right), (right, left)))
        return f"{left} * {right}", left * right
    if kind == "/":
        right = rng.choice((rng.randint(2, 9), rng.randint(2, 9), rng.randint(10, 60), 10, 100))
        quotient = _number(rng, 3 if right < 10 or right in (10, 100) else 2)
        return f"{right * quotient} / {right}", quotient
    if kind == "total":
        return _signed_sum(rng, rng.randint(-40, 45), rng.randrange(10))
    slope, solution = rng.randint(-12, 12) or 1, rng.randint(-12, 12)
    if rng.random() < 0.5:
        return f"{slope * solution} / {slope}", solution
    return _signed_sum(rng, rng.randint(-150, 150), rng.randint(1, 12))


def _sheets(rng: random.Random, words: Sequence[str]) -> Drill:
    steps = [_step(rng) for _ in range(rng.randint(4, 10))]
    question = "Work out each line:\n" + "\n".join(step for step, _ in steps)
    lines = [f"{step} = {result}" for step, result in steps]
    return _drill(question, lines, str(steps[-1][1]))


VALUES = "values"
"""Letters or words and their values, to be looked up in another order.

In a word problem, too, numbers are found by the words beside them, and their digits copied one by
one. A value may stand right behind its key, where it is easy to find, or further off.
"""


def _values(rng: random.Random, words: Sequence[str]) -> Drill:
    count = rng.randint(2, 8)
    names = sorted(set(rng.choices(words, k=count)))
    keys = rng.choice((rng.sample("abcdefghijklmnopqrstuvwxyz", count), names))
    between = rng.choice(("", " ", ": ", " = ", " has "))
    values = {key: str(_number(rng, 3)) for key in keys}
    rng.shuffle(keys)
    lines = {key: f"{key}{between}{values[key]}" for key in keys}
    rng.shuffle(keys)
    question = "\n".join([*lines.values(), "Give each value:", *keys])
    return _drill(question, [lines[key] for key in keys], values[keys[-1]])


DRILLS: dict[str, Callable[[random.Random, Sequence[str]], Drill]] = {
    COPYING: _copying,
    FACTS: _facts,
    SHEETS: _sheets,
    VALUES: _values,
}
"""Drills by name; each draws from a random number generator and a list of words."""
