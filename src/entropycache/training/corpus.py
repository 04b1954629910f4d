"""Training examples and evaluation problems, drawn from reasoning-gym by seed.

Everything is a function of a seed range. A chunk of the corpus can be made again at any time, so
that a resumed run reads exactly what an uninterrupted one would. The ranges of training, validation
and evaluation seeds do not overlap.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import reasoning_gym

from entropycache.training.drills import DRILLS
from entropycache.training.tasks import TASKS

TRAINING_SEEDS = range(0, 4_000_000)
VALIDATION_SEEDS = range(10_000_000, 11_000_000)
EVALUATION_SEEDS = range(20_000_000, 20_100_000)
EVALUATION_SIZES = {name: 500 if name == "gsm_symbolic" else 200 for name in TASKS}


@dataclass(frozen=True)
class Problem:
    """A question in reasoning-gym's words, its answer, and the worked response to be learnt."""

    task: str
    seed: int
    question: str
    answer: str
    response: str


@cache
def _generator(task: str, seeds: range) -> Any:
    # reasoning-gym seeds item i of a data set with the data set's seed + i: one data set covers one
    # range of seeds.
    return reasoning_gym.create_dataset(
        task, seed=seeds.start, size=len(seeds), **TASKS[task].settings
    )


def problem(task: str, seed: int, seeds: range) -> Problem:
    """The problem that ``task`` draws from ``seed``, which must lie in ``seeds``."""
    item = _generator(task, seeds)[seeds.index(seed)]
    response = TASKS[task].response(item)
    return Problem(task, seed, item["question"].strip(), str(item["answer"]).strip(), response)


def evaluation_set(task: str) -> list[Problem]:
    """The held-out problems of one task: the first of the evaluation seeds, each question once."""
    by_question: dict[str, Problem] = {}
    for seed in EVALUATION_SEEDS:
        item = problem(task, seed, EVALUATION_SEEDS)
        by_question.setdefault(item.question, item)
        if len(by_question) == EVALUATION_SIZES[task]:
            break
    return list(by_question.values())


@cache
def held_out_questions() -> frozenset[str]:
    """All evaluation questions, which stay out of training.

    Separate seeds are not enough: small tasks repeat questions under other seeds.
    """
    return frozenset(item.question for task in TASKS for item in evaluation_set(task))


def write_evaluation_sets(folder: Path) -> None:
    """Write the held-out problems to ``folder``, one JSONL file for each task, as shipped."""
    folder.mkdir(parents=True, exist_ok=True)
    for task in TASKS:
        with (folder / f"{task}.jsonl").open("w", encoding="utf-8") as file:
            for i, item in enumerate(evaluation_set(task)):
                record = {"id": f"{task}-{i}", "task": task, "seed": item.seed}
                record |= {
                    "question": item.question,
                    "answer": item.answer,
                    "response": item.response,
                }
                file.write(json.dumps(record, ensure_ascii=False) + "\n")


@dataclass(frozen=True)
class Mixture:
    """The distribution that examples are drawn from.

    ``weights`` are those of the tasks and drills. ``few_shot`` is the share of examples with worked
    examples in front, of which there are 1 to ``max_shots``. ``long_tail`` is the share with a tail
    of up to ``max_tail`` end tokens; other tails have up to 12. With ``brevity`` a problem is kept
    with probability ``exp(-n / brevity)``, where ``n`` is the number of characters of its response:
    a task of many wordings is then learnt from the short ones first.
    """

    weights: Mapping[str, float]
    few_shot: float = 0.02
    max_shots: int = 8
    long_tail: float = 0.15
    max_tail: int = 320
    brevity: float | None = None


@dataclass(frozen=True)
class Example:
    """A chat to learn from: turns (question, response, question, …) and a tail.

    All responses are to be learnt. ``tail`` is the number of end tokens behind the last one.
    """

    turns: tuple[str, ...]
    tail: int
    task: str


def draw_chunk(mixture: Mixture, index: int, size: int, seeds: range) -> Iterator[Example]:
    """Yield chunk ``index`` of the corpus, ``size`` examples.

    They depend on the arguments alone, so that a chunk can be made again.
    """
    rng = random.Random(f"{seeds.start}/{index}")
    held_out = held_out_questions()
    tasks, weights = list(mixture.weights), list(mixture.weights.values())
    for _ in range(size):
        task = rng.choices(tasks, weights)[0]
        shots = rng.randint(1, mixture.max_shots) if rng.random() < mixture.few_shot else 0
        problems = [_fresh(task, rng, seeds, held_out, mixture.brevity) for _ in range(shots + 1)]
        turns = tuple(text for item in problems for text in (item.question, item.response))
        long = rng.random() < mixture.long_tail
        yield Example(turns, rng.randint(1, mixture.max_tail if long else 12), task)


def _fresh(
    task: str,
    rng: random.Random,
    seeds: range,
    held_out: frozenset[str],
    brevity: float | None,
) -> Problem:
    while True:
        if task in DRILLS:
            words = _generator("word_sequence_reversal", seeds).words
            item = Problem(task, seeds.start, *DRILLS[task](rng, words))
        else:
            item = problem(task, rng.choice(seeds), seeds)
        if item.question in held_out:
            continue
        if brevity is None or rng.random() < math.exp(-len(item.response) / brevity):
            return item


def texts(examples: Sequence[Example]) -> Iterator[str]:
    """Yield all texts of the examples, for training a tokenizer."""
    for example in examples:
        yield from example.turns
