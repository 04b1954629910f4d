"""Foreign functions: measured in the same table, with the defaults that are their own."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from entropycache import GenerationConfig
from entropycache.bench import foreign
from entropycache.bench.comparison import Candidate, Case, Result
from entropycache.errors import OptionError
from tests.bench.tools import SHORT


def test_a_foreign_function_stands_in_the_same_table(engines, monkeypatch, tmp_path):
    (tmp_path / "theirs.py").write_text(
        "def generate(prompt_ids, gen_length, threshold=None):\n"
        "    return [*prompt_ids, *([7] * gen_length)]\n"
        "def short(prompt_ids, **options):\n"
        "    assert 'policy' not in options\n"
        "    return [1]\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    engine = engines("llada", "float32")
    candidate = Candidate("theirs", engine, SHORT, foreign.load_foreign("theirs:generate"))
    row = Result(candidate)
    row.add(Case([1, 2]))
    assert row.done[0].token_ids == [7] * 24
    assert row.done[0].answer_tokens == 24
    with pytest.raises(OptionError, match="short returned 1 token ids; gen_length is 24"):
        Result(replace(candidate, foreign=foreign.load_foreign("theirs:short"))).add(Case([1, 2]))


def test_a_foreign_function_keeps_its_own_defaults(engines):
    seen = []

    def theirs(prompt_ids, steps=7, gen_length=1, threshold=0.5, block_length=4, window=1):
        seen.append((steps, gen_length, threshold, block_length, window))
        return torch.zeros(1, gen_length, dtype=torch.long)

    candidate = Candidate(
        "theirs", engines("llada", "float32"), GenerationConfig(gen_length=8), theirs
    )
    Result(candidate).add(Case([1]))
    assert seen == [(7, 8, 0.9, 4, 32)], "what is in force, and nothing for what is not"

    def broken(prompt_ids):
        raise KeyError("theirs")

    with pytest.raises(OptionError, match="broken: KeyError"):
        Result(replace(candidate, foreign=broken)).add(Case([1]))


@pytest.mark.parametrize("spec", ["theirs", ":f", "no_such_module_here:f", "json:nothing"])
def test_a_foreign_function_that_is_not_there(spec):
    with pytest.raises(OptionError, match="--against"):
        foreign.load_foreign(spec)
