"""The corpus: seeds never meet, chunks can be drawn again, and brevity weighs the answers."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

pytest.importorskip("reasoning_gym")

from entropycache.io.problems import held_out, task_names
from entropycache.training import corpus
from entropycache.training.tasks import TASKS


def test_seed_ranges_never_meet_and_held_out_questions_stay_out_of_training():
    ranges = (corpus.TRAINING_SEEDS, corpus.VALIDATION_SEEDS, corpus.EVALUATION_SEEDS)
    for a in ranges:
        assert all(not set((a[0], a[-1])) & set(b) for b in ranges if b is not a)
    held = corpus.held_out_questions()
    mixture = corpus.Mixture({"chain_sum": 1.0}, few_shot=0.2)
    drawn = list(corpus.draw_chunk(mixture, 0, 2000, corpus.TRAINING_SEEDS))
    questions = {turn for example in drawn for turn in example.turns[::2]}
    assert len(questions) > 1500
    assert not questions & held


def test_the_shipped_problems_are_what_the_generator_draws_now():
    assert set(task_names()) == set(TASKS)
    assert task_names()[0] == "gsm_symbolic"
    for task in TASKS:
        shipped = held_out(task)
        assert len(shipped) == (500 if task == "gsm_symbolic" else 200)
        assert len({p.question for p in shipped}) == len(shipped)
        drawn = corpus.evaluation_set(task)
        assert [p.question for p in shipped] == [p.question for p in drawn]
        assert [p.answer for p in shipped] == [p.answer for p in drawn]
        assert [p.response for p in shipped] == [p.response for p in drawn]
        assert all(p.solved_by(p.response) for p in shipped)


def test_a_chunk_depends_on_its_index_alone():
    mixture = corpus.Mixture({name: 1.0 for name in TASKS}, few_shot=0.3)
    first, again = (list(corpus.draw_chunk(mixture, 3, 50, corpus.TRAINING_SEEDS)) for _ in "ab")
    other = list(corpus.draw_chunk(mixture, 4, 50, corpus.TRAINING_SEEDS))
    assert first == again != other
    assert max(len(example.turns) for example in first) > 4


def test_brevity_keeps_answers_as_likely_as_they_are_short():
    plain = corpus.Mixture({"gsm_symbolic": 1.0}, few_shot=0.0)
    lengths = []
    for mixture in (plain, replace(plain, brevity=40.0)):
        drawn = list(corpus.draw_chunk(mixture, 0, 400, corpus.TRAINING_SEEDS))
        lengths.append([len(example.turns[-1]) for example in drawn])
    weights = [math.exp(-n / 40) for n in lengths[0]]
    for least, most in ((0, 40), (40, 80), (80, 120)):
        inside = [w for n, w in zip(lengths[0], weights, strict=True) if least <= n < most]
        share = sum(least <= n < most for n in lengths[1]) / len(lengths[1])
        assert abs(share - sum(inside) / sum(weights)) < 0.12
