"""What is shown of a checkpoint is what decoding uses."""

from __future__ import annotations

from typer.testing import CliRunner

from entropycache import load
from entropycache.cli import app
from tests.conftest import DATA


def shown(*options: str) -> dict[str, str]:
    result = CliRunner().invoke(app, ["show", *options])
    assert result.exit_code == 0, result.output
    return {line[:17].strip(): line[19:] for line in result.output.splitlines()}


def test_the_end_tokens_shown_are_those_that_end_an_answer():
    facts, tokenizer = shown("tiny"), load("tiny").tokenizer
    told = [int(part.split()[0]) for part in facts["end tokens"].split("  ")]
    assert told == sorted(tokenizer.end_ids) and len(told) > 0
    assert facts["mask token"] == f"{tokenizer.mask_id} {tokenizer.mask_text}"
    assert facts["architecture"] == "LLaDAModelLM"
    assert facts["chat template"] == "yes"


def test_a_checkpoint_without_a_tokenizer_is_shown_by_ids():
    facts = shown(str(DATA / "dream"), "--dtype", "float64", "--device", "cpu")
    assert (facts["mask token"], facts["end tokens"]) == ("158", "159")
    assert facts["computes in"] == "float64 on cpu"
    assert facts["attention heads"] == "4, 2 for keys"
