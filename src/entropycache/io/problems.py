"""The held-out problems that ship with the embedded model, and how an answer to one is judged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from entropycache.errors import OptionError

DEFAULT_TASKS = ("aiw", "leg_counting", "products")
"""The tasks that the embedded model answers best: what is measured on it where none are named."""


@dataclass(frozen=True)
class HeldOut:
    """A problem no model of ours was trained on: question, answer, and the worked response it was
    taught to write.
    """

    id: str
    task: str
    question: str
    answer: str
    response: str

    @property
    def chat(self) -> list[dict[str, str]]:
        """The question as a chat of one message."""
        return [{"role": "user", "content": self.question}]

    def solved_by(self, text: str) -> bool:
        """Exact match of what stands behind the last ``####``."""
        return final_answer(text) == self.answer


def with_examples(problem: HeldOut, examples: Sequence[HeldOut]) -> list[dict[str, str]]:
    """The chat of a problem with worked examples in front of it, each an earlier turn."""
    front: list[dict[str, str]] = []
    for example in examples:
        front += [*example.chat, {"role": "assistant", "content": example.response}]
    return front + problem.chat


def final_answer(text: str) -> str:
    """What stands behind the last ``####`` of a worked answer, or an empty string where there is
    none.
    """
    _, mark, tail = text.rpartition("####")
    return tail.strip() if mark else ""


def task_names() -> list[str]:
    """The tasks there are problems for; the main one, ``gsm_symbolic``, first."""
    folder = files("entropycache") / "assets" / "problems"
    found = sorted(entry.name.removesuffix(".jsonl") for entry in folder.iterdir())
    return sorted(found, key=lambda name: name != "gsm_symbolic")


def held_out(task: str) -> list[HeldOut]:
    """All problems of one task, in a fixed order."""
    if task not in task_names():
        raise OptionError(f"unknown task {task!r}; known: {', '.join(task_names())}")
    path = files("entropycache") / "assets" / "problems" / f"{task}.jsonl"
    keys = ("id", "task", "question", "answer", "response")
    records = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return [HeldOut(**{key: record[key] for key in keys}) for record in records]
