"""Programs of a task: judged by the sandbox, with the task's own examples."""

from __future__ import annotations

from entropycache.evaluation import programs, tasks
from tests.evaluation.tools import FAST, LOCAL, measured, refused


def test_mbpp_is_judged_by_the_sandbox_with_its_own_examples(tmp_path, few_tasks, monkeypatch):
    arguments = ["--tasks", "mbpp", *FAST, "--data-dir", str(LOCAL), "--gen-length", "16"]
    assert "mbpp runs programs" in refused(*arguments)
    judged = []
    monkeypatch.setattr(
        programs, "run_program", lambda code: (judged.append(code), programs_verdict())[1]
    )
    found = measured(tmp_path / "e.json", *arguments, "--confirm-run-unsafe-code")
    assert found["tasks"]["mbpp"]["metrics"]["pass@1"]["value"] == 1.0
    assert len(judged) == 1 and "assert add_one(1) == 2" in judged[0]
    built = tasks.build(tasks.Wanted(["mbpp"], chat=False, shots=3, data_dir=LOCAL))
    context = built["tasks"]["mbpp"].fewshot_context(built["tasks"]["mbpp"].eval_docs[0], 3)
    for shown in ("double", "negate", "square"):
        assert f"def {shown}(x)" in context
    assert context.count("[BEGIN]") == 4 and context.count("[DONE]") == 3


def programs_verdict():
    from entropycache.evaluation.sandbox import Verdict

    return Verdict(True, "passed")
