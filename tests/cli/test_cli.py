"""The command line, run in process on the reference checkpoint; users' mistakes end with status
2.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields

import pytest
import typer
from typer.testing import CliRunner

from entropycache import GenerationConfig
from entropycache.cli import app, main
from entropycache.errors import EntropyCacheError
from tests.conftest import DATA

MODEL = ["--model", str(DATA / "llada"), "--dtype", "float64"]
FAST = ["--gen-length", "16", "--block-length", "8", "--tokens-per-step", "2", "--policy", "none"]


def run(*arguments: str, stdin: str | None = None):
    return CliRunner().invoke(app, list(arguments), input=stdin)


def refused(*arguments: str) -> str:
    """The message of a mistake: one line, through the entry point."""
    found = run(*arguments)
    assert isinstance(found.exception, EntropyCacheError), found.output
    return str(found.exception)


def test_json_prints_one_object_that_matches_the_reference():
    case = json.loads((DATA / "llada" / "cases.json").read_text())[5]
    ids, decode = " ".join(map(str, case["prompt"])), case["decode"]
    found = run(
        *("generate", *MODEL, "--prompt-ids", ids, "--policy", "none", "--no-early-stop", "--json"),
        *("--gen-length", str(decode["gen_length"])),
        *("--block-length", str(decode["block_length"])),
        *("--tokens-per-step", str(decode["num_transfer_tokens"])),
    )
    data = json.loads(found.stdout)
    assert data["token_ids"] == case["output"]
    assert data["commits"] == case["commits"]
    assert data["forwards"] == data["full_passes"] == case["forwards"]
    assert set(data) >= {
        *("token_ids", "text", "finish_reason", "forwards", "full_passes", "rows_computed"),
        *("commits", "seconds", "tokens_per_second"),
    }


def test_every_setting_is_an_option():
    names = [item.name for item in fields(GenerationConfig)]
    command = typer.main.get_command(app).commands["generate"]
    options = {name for parameter in command.params for name in parameter.opts}
    assert {"--" + name.replace("_", "-") for name in names} < options
    assert run("generate", "--help").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--prompt", "x", "--prompt-ids", "1"], "give one of --prompt TEXT"),
        ([], "give one of --prompt TEXT"),
        (["--prompt-ids", "1 b"], "--prompt-ids takes whole numbers"),
        (["--prompt-ids", "1", "--threshold", "0.5", "--steps", "4"], "exclude each other"),
        (["--prompt-ids", "1", "--policy", "nothing"], "unknown policy 'nothing'"),
        (["--prompt-ids", "158"], "the mask token"),
        (["--prompt", "text"], "no tokenizer"),
        (["--input", "x.jsonl"], "--input and --output go together"),
        (["--prompt-ids", "1", "--trace", "/no/such/dir/t"], "cannot be written"),
        (["--chat", "--json"], "is a conversation"),
        (["--input", "x", "--output", "y", "--json"], "--json prints one completion"),
        (["--input", "x", "--output", "x"], "are the same file"),
    ],
)
def test_a_mistake_is_one_sentence(arguments, said):
    message = refused("generate", *MODEL, *arguments)
    assert said in message and "\n" not in message


def test_the_entry_point_prints_one_line_and_exits_with_2(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["entropycache", "generate", "--prompt-ids", "x"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("entropycache: --prompt-ids") and captured.err.count("\n") == 1


def write_records(path, *records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def test_a_file_is_decoded_with_each_records_own_settings(tmp_path, engines):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    write_records(
        source,
        {"id": "a", "prompt_ids": [1, 2, 3]},
        {"id": 7, "prompt_ids": [4], "gen_length": 8, "tokens_per_step": 1},
        {"id": "c", "prompt_ids": [], "threshold": 0.5, "policy": "entropy:tau=50"},
    )
    files = ["--input", str(source), "--output", str(target)]
    assert run("generate", *MODEL, *FAST, *files).exit_code == 0
    found = {r["id"]: r for r in map(json.loads, target.read_text().splitlines())}
    assert set(found) == {"a", 7, "c"}
    assert len(found[7]["token_ids"]) == found[7]["forwards"] == 8
    alone = engines("llada", "float64").generate(
        [1, 2, 3], gen_length=16, block_length=8, tokens_per_step=2, policy="none"
    )
    assert found["a"]["token_ids"] == alone.token_ids
    assert found["c"]["full_passes"] < found["c"]["forwards"]


def test_a_killed_run_goes_on_where_it_was(tmp_path):
    source, whole, cut = (tmp_path / name for name in ("in.jsonl", "whole.jsonl", "cut.jsonl"))
    write_records(source, *({"id": i, "prompt_ids": [i + 1]} for i in range(5)))
    arguments = ["generate", *MODEL, *FAST, "--batch-size", "1", "--input", str(source)]
    assert run(*arguments, "--output", str(whole)).exit_code == 0
    lines = whole.read_text().splitlines(keepends=True)
    cut.write_text("".join(lines[:2]) + lines[2][:30])
    again = run(*arguments, "--output", str(cut))
    assert "3 prompts decoded, 2 were there already, 0 failed" in again.output
    strip = [{k: v for k, v in json.loads(x).items() if "seconds" not in k and "per_" not in k}
             for x in lines]  # fmt: skip
    found = [json.loads(x) for x in cut.read_text().splitlines()]
    assert [{k: r[k] for k in strip[0]} for r in found] == strip


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 1: "),
        ("[1]", "line 1: a record is an object with an id"),
        ('{"id": 1}', "line 1: a record holds one of prompt, chat, prompt_ids, this one none"),
        ('{"id": 1, "prompt": "a", "chat": []}', "this one prompt and chat"),
        ('{"id": 1, "prompt": 5}', "line 1: prompt must be text, not 5"),
        ('{"id": 1, "prompt_ids": [1], "gen_len": 5}', "line 1: unknown option 'gen_len'"),
        ('{"id": 1, "prompt_ids": [1], "policy": "x"}', "line 1: unknown policy 'x'"),
        ('{"id": 1, "prompt_ids": [1]}\n{"id": 1, "prompt_ids": [1]}', "line 2: id 1 occurs twice"),
    ],
)
def test_a_wrong_record_names_its_line_and_nothing_is_written(tmp_path, line, said):
    (tmp_path / "in.jsonl").write_text(line + "\n")
    files = ["--input", str(tmp_path / "in.jsonl"), "--output", str(tmp_path / "out.jsonl")]
    assert said in refused("generate", *MODEL, *files)
    assert not (tmp_path / "out.jsonl").exists()


def test_an_output_of_something_else_is_not_overwritten(tmp_path):
    write_records(tmp_path / "in.jsonl", {"id": 1, "prompt_ids": [1]})
    files = ["--input", str(tmp_path / "in.jsonl"), "--output", str(tmp_path / "out.jsonl")]
    for notes in ("my notes\n", "my notes", '{"a": 1}\n', "[1]\n"):
        (tmp_path / "out.jsonl").write_text(notes)
        assert "is not an output of this command" in refused("generate", *MODEL, *FAST, *files)
        assert (tmp_path / "out.jsonl").read_text() == notes
    files = ["--input", str(tmp_path / "in.jsonl"), "--output", str(tmp_path / "no" / "x")]
    assert "cannot be written" in refused("generate", *MODEL, *FAST, *files)


def test_a_run_is_not_resumed_with_other_settings(tmp_path):
    write_records(tmp_path / "in.jsonl", {"id": 1, "prompt_ids": [1]})
    files = ["--input", str(tmp_path / "in.jsonl"), "--output", str(tmp_path / "out.jsonl")]
    assert run("generate", *MODEL, *FAST, *files).exit_code == 0
    assert "other settings" in refused("generate", *MODEL, *FAST, "--seed", "3", *files)
    write_records(tmp_path / "in.jsonl", {"id": 1, "prompt_ids": [2]})
    assert "another prompt" in refused("generate", *MODEL, *FAST, *files)


def test_characters_that_break_lines_elsewhere_do_not_break_records(tmp_path):
    options = ["--gen-length", "8", "--tokens-per-step", "8", "--policy", "none"]
    record = json.dumps({"id": "é", "prompt": "a\u2028b\x85c"}, ensure_ascii=False)
    (tmp_path / "in.jsonl").write_text(record + "\n", encoding="utf-8")
    files = ["--input", str(tmp_path / "in.jsonl"), "--output", str(tmp_path / "out.jsonl")]
    assert "1 prompts decoded" in run("generate", *options, *files).output
    data = (tmp_path / "out.jsonl").read_bytes()
    assert "1 were there already" in run("generate", *options, *files).output
    (tmp_path / "out.jsonl").write_bytes(data[: data.index("é".encode()) + 1])
    assert "1 prompts decoded, 0 were there already" in run("generate", *options, *files).output


def test_a_prompt_that_cannot_be_decoded_is_named_by_its_id(tmp_path):
    write_records(
        tmp_path / "in.jsonl",
        {"id": "fine", "prompt_ids": [1]},
        {"id": "long", "prompt_ids": [1] * 600},
    )
    files = ["--input", str(tmp_path / "in.jsonl"), "--output", str(tmp_path / "out.jsonl")]
    message = refused("generate", *MODEL, *FAST, *files)
    assert message.startswith("id 'long': prompt and gen_length make 616 positions")
    assert not (tmp_path / "out.jsonl").exists()


def test_an_empty_answer_prints_nothing_but_says_so(monkeypatch, capsys):
    from entropycache.cli import completions
    from entropycache.engine.output import Completion

    class Empty:
        text = None

        def generate(self, *arguments, **options):
            return Completion()

    done = completions.generate_one(Empty(), "x", "prompt", GenerationConfig(), None)
    assert not done.text and "the answer is empty" in capsys.readouterr().err


def test_a_trace_is_written_and_drawn(tmp_path):
    path = tmp_path / "t.jsonl"
    run("generate", *MODEL, *FAST, "--prompt-ids", "1 2", "--trace", str(path))
    found = run("trace", str(path))
    assert found.exit_code == 0, found.output
    assert (tmp_path / "t.png").stat().st_size > 5000
    assert "</html>" in (tmp_path / "t.html").read_text()


def test_a_conversation_answers_until_an_empty_line():
    options = ["--gen-length", "16", "--tokens-per-step", "8", "--policy", "none"]
    found = run("generate", "--chat", *options, stdin="2 + 2 =\n\n")
    assert found.exit_code == 0
    assert found.output.count("> ") == 2


def test_help_does_not_load_torch():
    code = "import sys; from entropycache.cli import app; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_infill_fills_the_masks_of_ids_and_of_text():
    found = run(
        *("generate", *MODEL, "--infill", "--prompt-ids", "3 158 5 158 158 7"),
        *("--policy", "none", "--tokens-per-step", "1", "--json"),
    )
    ids = json.loads(found.output)["token_ids"]
    assert [ids[i] for i in (0, 2, 5)] == [3, 5, 7] and 158 not in ids
    whole = run(
        *("generate", *MODEL, "--infill", "--prompt-ids", "3 158 5 158 158 7"),
        *("--block-length", "4", "--steps", "4", "--json"),
    )
    assert whole.exit_code == 0, "steps are counted against the masks' own length"
    text = run(
        *("generate", "--infill", "--prompt", "12 + 34 =<|mdm_mask|><|mdm_mask|><|mdm_mask|>"),
        *("--policy", "none", "--tokens-per-step", "1"),
    )
    assert text.exit_code == 0
    assert text.output.startswith("12 + 34 =")


def test_what_infill_cannot_do_is_said():
    assert "nothing to fill in" in refused("generate", "--infill", "--prompt", "no mask here")
    assert "no meaning" in refused(
        *("generate", "--infill", "--prompt", "a<|mdm_mask|>", "--gen-length", "9")
    )
    assert "goes with --prompt or --prompt-ids alone" in refused(
        *("generate", "--infill", "--chat", "--prompt", "a<|mdm_mask|>")
    )
    assert "infill takes a prompt with masks" in refused("generate", "--prompt", "a<|mdm_mask|>")


def test_the_options_of_rivals_reach_the_engine():
    common = ["generate", *MODEL, "--prompt-ids", "4 5 6", "--gen-length", "16", "--json"]
    rules = (
        ["--sigma", "4", "--tokens-per-step", "2"],
        ["--eb-gamma", "0.5"],
        ["--order", "random", "--tokens-per-step", "2", "--policy", "dkv-greedy"],
        ["--alg", "entropy", "--alg-temp", "0.2", "--steps", "8"],
        ["--policy", "d2:variant=paper", "--block-length", "16", "--tokens-per-step", "1"],
    )
    for rule in rules:
        found = run(*common, *rule)
        assert found.exit_code == 0, found.output
        assert sorted(sum(json.loads(found.output)["commits"], [])) == list(range(16))
    assert "needs an order drawn in advance" in refused(*common, "--policy", "dkv-greedy")
