"""Programs that test a model's answer to a problem of HumanEval or MBPP."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from entropycache.evaluation.sandbox import run_program

_BLOCK = re.compile(r"```(?:[Pp]ython)?[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL)
_MARKS = re.compile(r"^\s*\[BEGIN\]|\[DONE\].*\Z", re.DOTALL)


def code_of(answer: str) -> str:
    """The code of an answer: its first code block, or all of it, without MBPP's marks."""
    block = _BLOCK.search(answer)
    return _MARKS.sub("", block[1] if block else answer)


def human_eval_program(document: Mapping[str, Any], answer: str) -> str:
    """The program that tests an answer to a HumanEval problem.

    If the answer defines the whole function, only the prompt's imports and helpers are put in
    front. Anything else is taken as the continuation of the prompt.
    """
    code, prompt, name = code_of(answer), document["prompt"], document["entry_point"]
    definition = re.compile(rf"^(?:async )?def {re.escape(name)}\b", re.MULTILINE)
    if definition.search(code):
        asked = definition.search(prompt)
        code = prompt[: asked.start() if asked else 0] + code
    else:
        code = prompt + code
    return f"{code}\n\n{document['test']}\n\ncheck({name})\n"


def solves_human_eval(document: Mapping[str, Any], answer: str) -> bool:
    """True if an answer passes the tests of its HumanEval problem, executed in the sandbox."""
    return run_program(human_eval_program(document, answer)).passed


def solves_mbpp(document: Mapping[str, Any], answer: str) -> bool:
    """True if an answer passes the tests of its MBPP problem, executed in the sandbox."""
    setup = document.get("test_setup_code") or ""
    tests = "\n".join(document["test_list"])
    return run_program("\n\n".join((code_of(answer), setup, tests))).passed
