"""What is decoded in a comparison: held-out problems, with worked examples in front where asked, or
a file of prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from entropycache.bench.matrix import Case
from entropycache.config import GenerationConfig
from entropycache.engine import Engine
from entropycache.errors import OptionError
from entropycache.problems import held_out, with_examples
from entropycache.records import read_records

TASKS = ("aiw", "leg_counting", "products")
"""Those that the embedded model answers best."""


def problem_cases(tasks: Sequence[str], count: int, shots: int = 0) -> list[Case]:
    """``count`` held-out problems, as many of each task, each behind ``shots`` worked examples,
    which are the last problems of its own task and never asked themselves.
    """
    per_task = -(-count // len(tasks))
    found = []
    for task in tasks:
        every = held_out(task)
        if per_task + shots > len(every):
            raise OptionError(
                f"{task} has {len(every)} held-out problems, not {per_task} and {shots} examples"
            )
        examples = every[len(every) - shots :]
        found += [Case(with_examples(p, examples), p) for p in every[:per_task]]
    return found[:count]


def file_cases(path: Path, engine: Engine) -> list[Case]:
    """The prompts of a JSONL file, as ``entropycache generate --input`` reads it; there is nothing
    that their answers could be judged by.
    """
    cases = [Case(record.prompt) for record in read_records(path, GenerationConfig())]
    if not cases:
        raise OptionError(f"{path}: holds no prompt")
    for case in cases:
        engine.text.encode(case.prompt)
    return cases
