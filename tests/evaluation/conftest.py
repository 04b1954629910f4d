"""The tasks of lm_eval, a few of them."""

from __future__ import annotations

from pathlib import Path

import lm_eval.tasks
import pytest
from lm_eval.tasks import TaskManager

from entropycache.evaluation import tasks


@pytest.fixture
def few_tasks(monkeypatch):
    """lm_eval's tasks from a few of its folders: reading all takes seconds."""
    folder = Path(str(lm_eval.tasks.__file__)).parent
    names = ("gsm8k", "mbpp", "minerva_math", "mmlu_pro", "bbh", "gpqa")

    def manager(**_):
        return TaskManager(include_defaults=False, include_path=[folder / n for n in names])

    monkeypatch.setattr(tasks, "TaskManager", manager)
    return manager()
