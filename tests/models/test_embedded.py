"""The embedded model as shipped: its format, its size, and that it solves problems it never saw."""

from __future__ import annotations

import json
from importlib.resources import files

from entropycache import GenerationConfig
from entropycache.io.problems import held_out

FOLDER = files("entropycache") / "assets" / "tiny"


def test_it_is_a_llada_checkpoint_of_at_most_32_megabytes():
    config = json.loads((FOLDER / "config.json").read_text())
    assert config["model_type"] == "llada"
    assert config["architectures"] == ["LLaDAModelLM"]
    size = sum(len(entry.read_bytes()) for entry in FOLDER.iterdir() if entry.is_file())
    assert 20_000_000 < size <= 32_000_000


def test_its_tokenizer_knows_mask_end_and_chat_and_writes_digits_one_by_one(tiny):
    tokenizer = tiny.tokenizer.backend
    assert tokenizer.convert_tokens_to_ids("<|mdm_mask|>") == tiny.tokenizer.mask_id
    assert tokenizer.eos_token_id in tiny.tokenizer.end_ids
    assert tokenizer.convert_ids_to_tokens(tokenizer.encode("#### 4821"))[-4:] == list("4821")
    assert tokenizer.chat_template


def test_it_solves_some_held_out_problems_and_a_cache_keeps_most_of_its_text(tiny):
    """Few and short, for the time of the suite: the accuracies themselves are in the model card."""
    problems = held_out("aiw")[:6] + held_out("leg_counting")[:6]
    prompts = [p.chat for p in problems]
    options = {"gen_length": 64, "window": 16, "tokens_per_step": 1}
    plain = tiny.generate(prompts, GenerationConfig(policy="none", **options))
    cached = tiny.generate(prompts, GenerationConfig(policy="entropy:tau=0.1", **options))
    solved = [p.solved_by(c.text) for p, c in zip(problems, plain, strict=True)]
    same = [p.text == c.text for p, c in zip(plain, cached, strict=True)]
    assert sum(solved) >= 10
    assert sum(same) >= 9
    assert sum(c.rows_computed for c in cached) < sum(c.rows_computed for c in plain)
