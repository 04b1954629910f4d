"""Tasks: worked responses are right, and say all that their answer follows from."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("reasoning_gym")

from entropycache.io.problems import final_answer, held_out
from entropycache.training import corpus
from entropycache.training.tasks import TASKS
from tests.training.tools import value


@pytest.mark.parametrize("task", TASKS)
def test_worked_responses_end_in_the_answer_and_their_sums_are_right(task):
    for seed in corpus.VALIDATION_SEEDS[:300]:
        item = corpus.problem(task, seed, corpus.VALIDATION_SEEDS)
        *lines, last = item.response.splitlines()
        assert last == f"#### {item.answer}" and final_answer(item.response) == item.answer
        if task in ("chain_sum", "products", "simple_equations"):
            for line in lines:
                assert len({value(part) for part in line.split(" = ")}) == 1, line
            assert line.endswith(f" = {item.answer}")


def test_the_numbers_of_two_relatives_and_one_gender_determine_what_they_are_to_each_other():
    answers: dict[tuple[str, ...], set[str]] = {}
    for item in held_out("family_relationships"):
        people, pair, _ = item.response.splitlines()
        names = dict(person.split() for person in people.removeprefix("story: ").split(", "))
        first, second = pair.removeprefix("asked: ").split(", ")
        start, number, gender = first.split()
        goal, other = second.split()
        story, asked = (re.findall(r"[A-Z]\w+", part) for part in item.question.split("\n\n"))
        assert [*names] == [*dict.fromkeys(name for name in story if name != "They")]
        assert [name for name in asked if name in names] == [start, goal]
        assert [*names.values()] == ["1", "2", "3", "4"]
        assert (names[start], names[goal]) == (number, other)
        answers.setdefault((number, other, gender), set()).add(item.answer)
    assert len(answers) > 9 and all(len(found) == 1 for found in answers.values())
