"""Files of prompts, through ``generate --input``: own settings, resumed runs, wrong records."""

from __future__ import annotations

import json

import pytest

from tests.cli.tools import FAST, MODEL, refused, run, write_records


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
