"""Batches: one length each, filled with end tokens, and every answer marked."""

from __future__ import annotations

import random
from itertools import groupby

import pytest
import torch

pytest.importorskip("reasoning_gym")

from entropycache.training import corpus
from entropycache.training.batches import (
    LENGTHS,
    ROUND,
    batches,
    close_lengths,
    encode,
    fixed_shapes,
)
from entropycache.training.tasks import TASKS


@pytest.mark.parametrize("cut", [fixed_shapes, close_lengths])
def test_batches_are_of_one_length_and_filled_with_end_tokens(tokenizer, cut):
    mixture = corpus.Mixture({name: 1.0 for name in TASKS}, few_shot=0.3, long_tail=0.5)
    drawn = list(corpus.draw_chunk(mixture, 0, 60, corpus.TRAINING_SEEDS))
    encoded = [e for e in (encode(tokenizer, x) for x in drawn) if e]
    end = tokenizer.eos_token_id
    assert len(encoded) > 50
    for example in encoded:
        assert example.ids[-1] == end
        assert end not in example.ids[: example.answers[-1][0]]
    made = list(batches(encoded, 1024, random.Random(0), end, cut))
    wanted = {tuple(example.ids): example for example in encoded}
    found = 0
    for batch in made:
        length = batch.ids.shape[1]
        assert 2 * batch.ids.numel() <= max(1024, 2 * length)
        assert length in LENGTHS if cut is fixed_shapes else length % ROUND == 0
        assert (batch.first is None) == (cut is close_lengths)
        numbers = batch.answers[batch.answers > 0].unique()
        assert torch.equal(numbers, torch.arange(1, len(numbers) + 1))
        for row, answers in zip(batch.ids.tolist(), batch.answers.tolist(), strict=True):
            key = next(k for k in wanted if list(k) == row[: len(k)])
            assert set(row[len(key) :]) <= {end}
            runs = [(n, len(list(run))) for n, run in groupby(answers)]
            spans = [b - a for a, b in wanted[key].answers]
            spans[-1] += length - len(key)
            assert [size for n, size in runs if n] == spans
            found += 1
    if cut is fixed_shapes:
        assert 0 < found <= len(encoded)
        assert len({(b.ids.shape, b.first) for b in made}) == len({b.ids.shape[1] for b in made})
    else:
        assert found == len(encoded), "every example is used"


def test_the_answers_of_worked_examples_are_found_in_the_prompt(tokenizer):
    mixture = corpus.Mixture({name: 1.0 for name in TASKS}, few_shot=1.0, max_shots=4)
    for example in corpus.draw_chunk(mixture, 0, 40, corpus.TRAINING_SEEDS):
        found = encode(tokenizer, example)
        assert found is not None and len(found.answers) == len(example.turns) // 2
        for (begin, end), answer in zip(found.answers, example.turns[1::2], strict=True):
            text = tokenizer.decode(found.ids[begin:end])
            assert text.removesuffix(tokenizer.eos_token * example.tail) == answer
