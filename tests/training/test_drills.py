"""Drills: their answers are right and their questions are not held out."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("reasoning_gym")

from entropycache.io.problems import final_answer
from entropycache.training import corpus, drills


def test_drills_are_right_and_no_held_out_question_is_among_them():
    mixture = corpus.Mixture({name: 1.0 for name in drills.DRILLS}, few_shot=0.0)
    drawn = list(corpus.draw_chunk(mixture, 0, 600, corpus.TRAINING_SEEDS))
    assert {example.task for example in drawn} == set(drills.DRILLS)
    for example in drawn:
        question, response = example.turns
        assert question not in corpus.held_out_questions()
        if example.task == drills.COPYING:
            assert response == "#### " + question.removeprefix("Copy this list: ")
        elif example.task == drills.VALUES:
            given, asked = question.split("\nGive each value:\n")
            *lines, last = response.splitlines()
            assert sorted(given.splitlines()) == sorted(lines)
            for line, key in zip(lines, asked.splitlines(), strict=True):
                found = re.fullmatch(rf"{re.escape(key)}(?:| |: | = | has )(\d+)", line)
                assert found
            assert last == f"#### {found[1]}"
        elif example.task == drills.SHEETS:
            *lines, last = response.splitlines()
            assert [line.split(" = ")[0] for line in lines] == question.splitlines()[1:]
            for step, result in (line.split(" = ") for line in lines):
                assert eval(step) == int(result)
            assert last == f"#### {result}"
        else:
            step, *parts = response.splitlines()[0].split(" = ")
            assert step in question
            assert {eval(step), *map(eval, parts)} == {int(final_answer(response))}
