"""Local data: files serve tasks and groups, and what is missing is named."""

from __future__ import annotations

import json

from entropycache.evaluation import local_data, tasks
from tests.evaluation.tools import FAST, LOCAL, measured, refused, run


def test_unknown_tasks_and_missing_data_say_what_would_serve(few_tasks):
    assert "unknown task 'gsm9k'; offline: held-out:gsm_symbolic" in refused("--tasks", "gsm9k")
    said = refused("--tasks", "gsm8k")
    assert "gsm8k: its data set openai/gsm8k is not to be had" in said
    assert "DIR/gsm8k/test.jsonl and DIR/gsm8k/train.jsonl (worked examples) would serve" in said
    said = refused("--tasks", "gsm8k_cot")
    assert (
        "with --data-dir DIR, DIR/gsm8k_cot.jsonl or DIR/gsm8k_cot/test.jsonl would serve" in said
    )


def test_gsm8k_runs_from_local_files(tmp_path, few_tasks):
    arguments = ["--tasks", "gsm8k", *FAST, "--data-dir", str(LOCAL), "--gen-length", "16"]
    found = measured(tmp_path / "e.json", *arguments, "--num-fewshot", "2")
    task = found["tasks"]["gsm8k"]
    assert set(task["metrics"]) == {"exact_match (strict-match)", "exact_match (flexible-extract)"}
    assert task["samples"] == 3 and task["num_fewshot"] == 2
    assert task["decoding"]["stop"] == ["Question:", "</s>", "<|im_end|>"]
    assert "24" in found["samples"]["gsm8k"][0]["target"]
    assert "has 2 worked examples, not 3" in refused(*arguments, "--num-fewshot", "3")


def test_missing_local_files_are_named(tmp_path, few_tasks):
    arguments = ["--tasks", "gsm8k", *FAST, "--data-dir", str(tmp_path), "--gen-length", "8"]
    assert "gsm8k.jsonl or " in refused(*arguments, "--num-fewshot", "0")
    (tmp_path / "gsm8k.jsonl").write_bytes((LOCAL / "gsm8k" / "test.jsonl").read_bytes())
    said = refused(*arguments, "--num-fewshot", "2")
    assert f"lacks data for gsm8k; {tmp_path}/gsm8k/test.jsonl and {tmp_path}/gsm8k/train" in said
    assert run(*arguments, "--num-fewshot", "0").exit_code == 0
    (tmp_path / "gsm8k.jsonl").write_text("{\n")
    assert "line 1: not JSON" in refused(*arguments, "--num-fewshot", "0")


def test_a_groups_file_serves_tasks_that_are_parts_of_it(tmp_path, few_tasks):
    members = [
        few_tasks.task_index[name].cfg for name in few_tasks.task_index["mmlu_pro"].cfg["task"]
    ]
    question = {"question": "2 + 2?", "options": ["3", "4"], "answer": "B", "cot_content": "So B."}
    subjects = [str(config["task_alias"]).replace("_", " ") for config in members]
    rows = [question | {"category": subject} for subject in subjects]
    (tmp_path / "mmlu_pro").mkdir()
    for split, shots in (("test", 1), ("validation", 2)):
        (tmp_path / "mmlu_pro" / f"{split}.json").write_text(json.dumps(rows * shots))
    wanted = tasks.Wanted(["mmlu_pro"], chat=True, shots=2, data_dir=tmp_path)
    loaded = tasks.build(wanted)
    assert list(loaded["groups"]) == ["mmlu_pro"] and len(loaded["tasks"]) == len(members)
    assert all(len(task.eval_docs) == 1 for task in loaded["tasks"].values())
    (tmp_path / "mmlu_pro" / "test.json").write_text(json.dumps(rows[:1]))
    assert "lack what it reads" in refused(
        *("--tasks", "mmlu_pro", "--data-dir", str(tmp_path), "--num-fewshot", "2")
    )
    assert "bbh_cot_fewshot_boolean_expressions.jsonl" in refused(
        *("--tasks", "bbh", "--data-dir", str(tmp_path), "--num-fewshot", "3")
    )


def test_splits_of_one_file_are_read_by_what_is_asked():
    config = {"test_split": "test", "fewshot_split": "train", "num_fewshot": 5}
    assert local_data.Needs.of(config, None) == local_data.Needs("test", "train")
    assert local_data.Needs.of(config, 0) == local_data.Needs("test", None)
    config |= {"fewshot_config": {"samples": [1]}}
    assert local_data.Needs.of(config, None) == local_data.Needs("test", None)
    assert local_data.Needs.of({"validation_split": "dev"}, 2) == local_data.Needs("dev", "dev")
