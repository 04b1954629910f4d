"""Calculations: solutions in prose become one operation a line, or are left alone."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("reasoning_gym")

from entropycache.training import corpus
from entropycache.training.calculations import calculations
from tests.training.tools import value


def test_nearly_all_word_problems_become_one_operation_a_line():
    prose = 0
    for seed in corpus.VALIDATION_SEEDS[:1000]:
        item = corpus.problem("gsm_symbolic", seed, corpus.VALIDATION_SEEDS)
        *lines, _ = item.response.splitlines()
        number = r"-?\d+(?:\.\d+|/\d+)?"
        if not all(re.fullmatch(rf"{number} [-+*/] {number} = {number}", line) for line in lines):
            prose += 1
            continue
        for line in lines:
            calculation, result = line.split(" = ")
            assert value(result) in (value(calculation), value(calculation) // 1), line
        assert value(result) == value(item.answer)
    assert prose < 60


@pytest.mark.parametrize(
    ("solution", "answer", "lines"),
    [
        ("9 skeins per shawl + 4 skeins per hat = 13 skeins.", "13", ["9 + 4 = 13"]),
        ("It is $1,000 - €300 - £50 = $650.", "650", ["1000 - 300 = 700", "700 - 50 = 650"]),
        ("6 days/week * 2 weeks/month = 12 days/month", "12", ["6 * 2 = 12"]),
        ("He has 5 left, 2(62+18) = 160", "160", ["62 + 18 = 80", "2 * 80 = 160"]),
        ("half * 188 beetles = 94", "94.0", ["188 / 2 = 94"]),
        ("3/4 x 64 = 48", "48", ["64 / 4 = 16", "16 * 3 = 48"]),
        ("6 x 0.6666666666666666 = 4.0", "4", ["6 / 3 = 2", "2 * 2 = 4"]),
        ("$220 * 40% = $88", "88", ["220 * 40 = 8800", "8800 / 100 = 88"]),
        ("195 * 12 = 2340", "2,340", ["195 * 10 = 1950", "195 * 2 = 390", "1950 + 390 = 2340"]),
        ("17*0.5=8 tubes", "8", ["17 / 2 = 8"]),
        ("3 - 5 = -2\n-2 is 4 - 6 = -2", "-2", ["3 - 5 = -2", "4 - 6 = -2"]),
        ("2 + 2 = 4\n2 + 2 = 4\n4 - 1 = 3\n2 + 2 = 4", "4", ["2 + 2 = 4"]),
        (
            "She has 70 + 48 + T = 118 + T = 193 toys.\nThus T = 193 - 118 = 75",
            "75",
            ["70 + 48 = 118", "193 - 118 = 75"],
        ),
        ("1 * 4 = 4", "4", None),
        ("4 / 0 = 0", "0", None),
        ("2 + 2 = 5", "5", None),
        ("2 + 2 = 4", "5", None),
        ("He has four.", "4", None),
    ],
)
def test_solutions_in_prose_become_their_calculations(solution, answer, lines):
    assert calculations(solution, answer) == lines
