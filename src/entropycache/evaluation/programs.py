"""From a model's answer to a program that tests itself, for HumanEval and MBPP."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from entropycache.evaluation.sandbox import run_program

_BLOCK = re.compile(r"```(?:[Pp]ython)?[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL)
_MARKS = re.compile(r"^\s*\[BEGIN\]|\[DONE\].*\Z", re.DOTALL)


def code_of(answer: str) -> str:
    """The code of an answer: its first block, or all of it, without MBPP's marks."""
    block = _BLOCK.search(answer)
    return _MARKS.sub("", block[1] if block else answer)


def human_eval_program(document: Mapping[str, Any], answer: str) -> str:
    """A whole function stands behind the prompt's imports and helpers; anything else continues the
    prompt.
    """
    code, prompt, name = code_of(answer), document["prompt"], document["entry_point"]
    definition = re.compile(rf"^(?:async )?def {re.escape(name)}\b", re.MULTILINE)
    if definition.search(code):
        begin = definition.search(prompt)
        code = prompt[: begin.start() if begin else 0] + code
    else:
        code = prompt + code
    return f"{code}\n\n{document['test']}\n\ncheck({name})\n"


def solves_human_eval(document: Mapping[str, Any], answer: str) -> bool:
    """Whether an answer passes the tests of its HumanEval problem."""
    return run_program(human_eval_program(document, answer)).passed


def solves_mbpp(document: Mapping[str, Any], answer: str) -> bool:
    """Whether an answer passes the tests of its MBPP problem."""
    setup = document.get("test_setup_code") or ""
    tests = "\n".join(document["test_list"])
    return run_program("\n\n".join((code_of(answer), setup, tests))).passed
