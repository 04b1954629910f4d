"""``entropycache generate``: one completion, a conversation, masks filled in, and mistakes."""

from __future__ import annotations

import json

import pytest

from entropycache import GenerationConfig
from tests.cli.tools import MODEL, refused, run
from tests.conftest import DATA


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


def test_a_conversation_answers_until_an_empty_line():
    options = ["--gen-length", "16", "--tokens-per-step", "8", "--policy", "none"]
    found = run("generate", "--chat", *options, stdin="2 + 2 =\n\n")
    assert found.exit_code == 0
    assert found.output.count("> ") == 2


def test_an_empty_answer_prints_nothing_but_says_so(monkeypatch, capsys):
    from entropycache.cli import completions
    from entropycache.engine.output import Completion

    class Empty:
        text = None

        def generate(self, *arguments, **options):
            return Completion()

    done = completions.generate_one(Empty(), "x", "prompt", GenerationConfig(), None)
    assert not done.text and "the answer is empty" in capsys.readouterr().err


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
