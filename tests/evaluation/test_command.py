"""``entropycache eval``: report, table, resuming, and mistakes."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest

from entropycache.evaluation import offline, presets
from entropycache.evaluation.journal import Journal
from entropycache.io.problems import held_out
from tests.evaluation.tools import FAST, measured, refused, run, without_times


def test_the_report_holds_settings_versions_machine_totals_and_samples(tmp_path):
    names = ["held-out:aiw", "held-out:products"]
    found = measured(tmp_path / "e.json", "--tasks", ",".join(names), *FAST)
    assert found["settings"]["tasks"] == names and found["settings"]["limit"] == 3
    assert found["model"]["family"] == "llada" and found["model"]["model_name"] == "tiny"
    assert set(found["versions"]) >= {"entropycache", "torch", "transformers", "lm_eval", "python"}
    assert found["machine"]["threads"] == 1
    for name in names:
        task, samples = found["tasks"][name], found["samples"][name]
        assert task["samples"] == len(samples) == 3 and task["failed"] == 0
        solved = [sample["metrics"]["exact_match"] for sample in samples]
        assert task["metrics"]["exact_match"]["value"] == pytest.approx(sum(solved) / 3)
        problems = held_out(name.removeprefix("held-out:"))
        for sample, problem in zip(samples, problems, strict=False):
            assert sample["target"] == problem.response
            assert sample["metrics"]["exact_match"] == problem.solved_by(sample["text"])
        for key in ("forwards", "full_passes", "rows_computed", "answer_tokens"):
            assert task[key] == sum(sample[key] for sample in samples)
        wall = sum(sample["wall_seconds"] for sample in samples)
        assert task["tokens_per_second"] == pytest.approx(task["answer_tokens"] / wall)
        assert task["canvas_tokens_per_second"] == pytest.approx(3 * 32 / wall)
        acts = task["decoding"]
        assert acts["window"] == 32 and acts["threshold"] == 0.5
        assert acts["policy_options"]["tau"] == 1.0
    assert not list(tmp_path.glob("*partial*"))


def test_the_output_without_a_terminal_is_lines_with_tabs():
    found = run("--tasks", "held-out:aiw", *FAST, "--num-fewshot", "1")
    head, row, note = found.stdout.splitlines()
    assert head.split("\t")[:4] == ["task", "metric", "value", "samples"]
    name, metric, value, samples, *cost = row.split("\t")
    assert (name, metric, samples) == ("held-out:aiw", "exact_match", "3") and "±" in value
    assert len(cost) == 4 and all(float(number) > 0 for number in cost)
    assert "before the first end token" in note and "canvas tokens/s" in note


def test_the_same_seed_gives_the_same_accuracy_and_forward_counts(tmp_path):
    drawn = ["--tasks", "held-out:aiw", *FAST, "--temperature", "5", "--num-fewshot", "1"]
    first, second, other = (
        measured(tmp_path / f"{n}.json", *drawn, "--seed", seed)
        for n, seed in enumerate(("7", "7", "8"))
    )
    assert without_times(first) == without_times(second)
    texts = [[s["text"] for s in found["samples"]["held-out:aiw"]] for found in (first, other)]
    assert texts[0] != texts[1]


def test_a_killed_run_goes_on_and_ends_with_the_same_report(tmp_path, monkeypatch):
    arguments = ["--tasks", "held-out:aiw,held-out:products", *FAST, "--batch-size", "1"]
    with monkeypatch.context() as kept:
        kept.setattr(Journal, "remove", lambda self: None)
        whole = measured(tmp_path / "whole.json", *arguments)
    lines = (tmp_path / "whole.partial.jsonl").read_text().splitlines(keepends=True)
    assert len(lines) == 6
    (tmp_path / "cut.partial.jsonl").write_text("".join(lines[:4]) + lines[4][:40])
    added = []
    add = Journal.add
    monkeypatch.setattr(Journal, "add", lambda self, k, r: (added.append(k), add(self, k, r)))
    again = measured(tmp_path / "cut.json", *arguments)
    assert len(added) == 2, "finished answers are not decoded again"
    assert without_times(again) == without_times(whole)
    kept_time = sum(json.loads(line)["wall"] for line in lines[:3])
    assert again["tasks"]["held-out:aiw"]["wall_seconds"] == pytest.approx(kept_time)
    assert not list(tmp_path.glob("cut.partial*"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give --tasks or --preset; presets: paper-gsm8k"),
        (["--tasks", "held-out:aiw", "--preset", "paper-gsm8k"], "give --tasks or --preset"),
        (["--preset", "paper-x"], "unknown preset 'paper-x'; known: paper-gsm8k"),
        (["--tasks", "humaneval"], "give --confirm-run-unsafe-code"),
        (["--tasks", "humaneval", "--num-fewshot", "1"], "without worked examples"),
        (["--tasks", "held-out:aiw", "--num-fewshot", "9"], "has 8 worked examples, not 9"),
        (["--tasks", "held-out:aiw", "--num-fewshot", "-1"], "num_fewshot must be 0 or more"),
        (["--tasks", "held-out:aiw", "--limit", "0"], "limit must be a whole number or a share"),
        (["--tasks", "held-out:aiw", "--data-dir", "x"], "have their data here"),
        (["--tasks", "held-out:aiw", "--output", "/no/dir/e.json"], "cannot be written"),
        (["--tasks", "held-out:aiw", "--batch-size", "0"], "batch_size must be a whole number"),
        (["--tasks", "held-out:aiw", "--steps", "4", "--threshold", "0.5"], "exclude each other"),
    ],
)
def test_a_mistake_is_one_sentence(arguments, said):
    assert said in refused(*arguments)


def test_a_finished_output_is_not_overwritten(tmp_path):
    (tmp_path / "e.json").write_text("{}")
    said = refused("--tasks", "held-out:aiw", "--output", str(tmp_path / "e.json"))
    assert "exists already" in said and (tmp_path / "e.json").read_text() == "{}"


def test_the_list_names_presets_and_offline_tasks():
    found = run("--list").output
    for name in (*presets.PRESETS, *offline.names()):
        assert f"  {name}" in found


def test_the_extra_is_named_where_it_is_missing(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "lm_eval" else found(name, *a)
    )
    assert "pip install 'entropycache[eval]'" in refused("--tasks", "held-out:aiw")


def test_help_loads_neither_torch_nor_lm_eval():
    code = (
        "import sys; from typer.testing import CliRunner; from entropycache.cli import app\n"
        "assert CliRunner().invoke(app, ['eval', '--help']).exit_code == 0\n"
        "assert not {'torch', 'lm_eval', 'datasets'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
