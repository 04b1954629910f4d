"""The embedded model's tasks: reasoning-gym generators with functions that write worked steps.

The module knows the steps of an answer, not tokens or training batches.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from entropycache.training.calculations import calculations

Item = Mapping[str, Any]
"""One reasoning-gym item: ``question``, ``answer`` and ``metadata``."""


@dataclass(frozen=True)
class Task:
    """A reasoning-gym generator ``name``, its ``settings``, and the writer of worked ``steps``."""

    name: str
    steps: Callable[[Item], list[str]]
    settings: Mapping[str, Any] = field(default_factory=dict)

    def response(self, item: Item) -> str:
        """The whole worked answer: the steps, then ``#### answer``."""
        return worked(self.steps(item), item["answer"])


def worked(steps: Sequence[str], answer: str) -> str:
    """A response with a line for each step, which ends in ``#### answer``."""
    return "\n".join([*steps, f"#### {answer}"])


def _gsm_symbolic(item: Item) -> list[str]:
    solution: str = item["metadata"]["answer_cot"].split("####")[0]
    prose = [line.strip() for line in solution.split("\n") if line.strip()]
    # Prose where the equations cannot be followed: a wrong calculation would teach worse.
    return calculations(solution, item["answer"]) or prose


def _chain_sum(item: Item) -> list[str]:
    first, *rest = item["metadata"]["expression"].split()
    total, lines = int(first), []
    for sign, number in zip(rest[::2], rest[1::2], strict=True):
        after = total + int(number) if sign == "+" else total - int(number)
        lines.append(f"{total} {sign} {number} = {after}")
        total = after
    return lines


def _products(item: Item) -> list[str]:
    first, *rest = (int(part) for part in item["metadata"]["expression"].split(" * "))
    total, lines = first, []
    for number in rest:
        lines.append(f"{total} * {number} = {total * number}")
        total *= number
    return lines


def _leg_counting(item: Item) -> list[str]:
    from reasoning_gym.arithmetic.leg_counting import ANIMALS

    total, lines = 0, []
    for animal, count in item["metadata"]["animals"].items():
        legs = ANIMALS[animal]
        total += count * legs
        lines.append(f"{count} {animal} * {legs} = {count * legs}, total {total}")
    return lines


def _linear(expression: str, variable: str) -> tuple[int, int]:
    """The slope and the intercept of a linear expression such as ``9 - 3*d``."""

    def value(node: ast.expr, x: int) -> int:
        match node:
            case ast.Constant(value=int(number)):
                return number
            case ast.Name():
                return x
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -value(operand, x)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return value(left, x) + value(right, x)
            case ast.BinOp(left=left, op=ast.Sub(), right=right):
                return value(left, x) - value(right, x)
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return value(left, x) * value(right, x)
        raise ValueError(f"not a linear expression in {variable}: {expression}")

    tree = ast.parse(expression, mode="eval").body
    intercept = value(tree, 0)
    return value(tree, 1) - intercept, intercept


def _simple_equations(item: Item) -> list[str]:
    left, right = item["metadata"]["equation"].split(" = ")
    slope, intercept = _linear(left, item["metadata"]["variable"])
    total, lines = int(right), []
    if intercept:
        sign = "-" if intercept > 0 else "+"
        lines.append(f"{total} {sign} {abs(intercept)} = {total - intercept}")
    return [*lines, f"{total - intercept} / {slope} = {item['answer']}"]


def _aiw(item: Item) -> list[str]:
    question = item["question"]
    name = question.split()[0]
    kind = r"(\d+) (sisters|female friends|female colleagues)"
    count, others = re.search(kind, question).groups()  # type: ignore[union-attr]
    return [f"{name} and {count} {others}: {count} + 1 = {item['answer']}"]


def _word_sequence_reversal(item: Item) -> list[str]:
    words = item["metadata"]["words"]
    return [", ".join(f"{i} {words[i - 1]}" for i in range(len(words), 0, -1))]


def _people(story: str) -> list[str]:
    """The people in a story of ``family_relationships``, in the order in which it names them."""
    pattern = r"(\w+) is married to (\w+)\.(?: They have (?:a child|children) called ([^.]+)\.)?"
    families = [
        [first, second, *(re.split(r", | and ", children) if children else ())]
        for first, second, children in re.findall(pattern, story)
    ]
    return list(dict.fromkeys(chain.from_iterable(families)))


def _family_relationships(item: Item) -> list[str]:
    """The people in the order of the story, then the two of the question with their numbers.

    A story of four people has only one form, in which the numbers decide the relationship.
    """
    start, goal = item["metadata"]["person1"], item["metadata"]["person2"]
    numbers = {name: number for number, name in enumerate(_people(item["question"]), 1)}
    people = ", ".join(f"{name} {number}" for name, number in numbers.items())
    first = f"{start} {numbers[start]} {_gender(start)}"
    return [f"story: {people}", f"asked: {first}, {goal} {numbers[goal]}"]


def _gender(name: str) -> str:
    from reasoning_gym.graphs.family_relationships import FamilyRelationshipsConfig

    return "male" if name in FamilyRelationshipsConfig().male_names else "female"


TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task("gsm_symbolic", _gsm_symbolic),
        Task("aiw", _aiw),
        Task("chain_sum", _chain_sum, {"min_terms": 3, "max_terms": 5, "max_digits": 1}),
        Task(
            "products",
            _products,
            {"min_terms": 3, "max_terms": 3, "min_digits": 1, "max_digits": 1},
        ),
        Task(
            "leg_counting",
            _leg_counting,
            {"min_animals": 1, "max_animals": 1},
        ),
        Task("simple_equations", _simple_equations, {"max_terms": 2, "max_value": 12}),
        Task("word_sequence_reversal", _word_sequence_reversal, {"max_words": 4}),
        Task("family_relationships", _family_relationships, {"max_family_size": 4}),
    )
}
