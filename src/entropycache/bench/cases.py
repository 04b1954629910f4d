"""The cases of a comparison: held-out problems, with worked examples in front if wanted, or a file
of prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

from entropycache.bench.comparison import Case
from entropycache.config.generation import GenerationConfig
from entropycache.engine.engine import Engine
from entropycache.errors import OptionError
from entropycache.io.problems import held_out, task_names, with_examples
from entropycache.io.prompt_file import read_records


def problem_cases(tasks: Sequence[str], count: int, shots: int = 0) -> list[Case]:
    """``count`` held-out problems, the tasks in turns, each behind ``shots`` worked examples.

    The examples are the last problems of the same task and are never asked themselves. Raises
    ``OptionError`` for no task, an unknown task, or one with too few problems.
    """
    if not tasks:
        raise OptionError(f"give at least one task; known: {', '.join(task_names())}")
    by_task: list[list[Case]] = []
    for i, task in enumerate(tasks):
        every, share = held_out(task), (count + len(tasks) - 1 - i) // len(tasks)
        if share + shots > len(every):
            raise OptionError(
                f"{task} has {len(every)} held-out problems, not {share} and {shots} examples"
            )
        examples = every[len(every) - shots :]
        by_task.append([Case(with_examples(p, examples), p) for p in every[:share]])
    return [case for turn in zip_longest(*by_task) for case in turn if case is not None]


def file_cases(path: Path, engine: Engine) -> list[Case]:
    """The prompts of a JSONL file in the format of ``entropycache generate --input``.

    Their answers cannot be judged. Raises ``RecordError`` with the line that cannot be read,
    ``PromptError`` for a prompt that cannot be decoded, and ``OptionError`` for a file without
    prompts or a record with options of its own.
    """
    records = read_records(path, GenerationConfig())
    if not records:
        raise OptionError(f"{path}: holds no prompt")
    for record in records:
        if record.config != GenerationConfig():
            raise OptionError(
                f"{path}: id {record.id!r} has decoding options; give them on the command line, "
                "for all prompts alike"
            )
        engine.tokenizer.encode(record.prompt)
    return [Case(record.prompt) for record in records]
