"""Cases: problems are spread evenly, worked examples never asked, files checked first."""

from __future__ import annotations

import pytest

from entropycache.bench.cases import file_cases, problem_cases
from entropycache.errors import OptionError, PromptError, RecordError


def test_worked_examples_are_never_asked():
    cases = problem_cases(["products"], 5, shots=3)
    for case in cases:
        asked = [m["content"] for m in case.prompt if m["role"] == "user"]
        assert len(asked) == 4 and len(set(asked)) == 4
        assert asked[-1] == case.problem.question
    shown = {m["content"] for case in cases for m in case.prompt[:-1]}
    assert not shown & {case.problem.question for case in cases}
    with pytest.raises(OptionError, match="products has 200 held-out problems, not 199 and 2"):
        problem_cases(["products"], 199, shots=2)


def test_prompts_of_a_file_are_checked_first(tmp_path, tiny):
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"id": 1, "prompt": "1 + 1 ="}\n{"id": 2, "prompt_ids": [5, 6]}\n')
    assert [case.prompt for case in file_cases(file, tiny)] == ["1 + 1 =", [5, 6]]
    file.write_text('{"id": 1, "prompt_ids": [999999]}\n')
    with pytest.raises(PromptError, match="999999"):
        file_cases(file, tiny)
    file.write_text('{"id": 7, "prompt": "1", "seed": 3}\n')
    with pytest.raises(OptionError, match="id 7 has decoding options"):
        file_cases(file, tiny)
    file.write_text("")
    with pytest.raises(OptionError, match="holds no prompt"):
        file_cases(file, tiny)
    file.write_text('{"id": 1}\n')
    with pytest.raises(RecordError, match="line 1"):
        file_cases(file, tiny)


def test_problems_are_spread_evenly():
    groups = [case.group for case in problem_cases(["aiw", "products", "chain_sum"], 4)]
    assert groups == ["aiw", "products", "chain_sum", "aiw"]
