"""Data sets of lm_eval's own tasks from files of a folder, for machines without the hub.

``DIR/TASK.jsonl`` holds the documents that the task asks. ``DIR/TASK/SPLIT.jsonl`` holds one split,
under the name that the task's configuration gives it; worked examples have a split, too. The files
may also end in ``.json`` (a list) and ``.parquet``. A group's name stands for all its tasks if they
are parts of one data set. The fields are those of the data set on the hub.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets

from entropycache.errors import OptionError, RecordError
from entropycache.io.jsonl import read_lines

Config = Mapping[str, Any]
_ENDS = (".jsonl", ".json", ".parquet")


@dataclass(frozen=True)
class Needs:
    """The splits that a task reads: ``asked`` for its questions, ``examples`` for worked examples.

    ``examples`` is ``None`` if the task shows none, or has them in its configuration.
    """

    asked: str
    examples: str | None

    @classmethod
    def of(cls, config: Config, shots: int | None) -> Needs:
        """The splits that a configuration reads with ``shots`` examples, or its own number."""
        asked = str(config.get("test_split") or config.get("validation_split") or "test")
        few = config.get("fewshot_config") or {}
        if not (config.get("num_fewshot") if shots is None else shots):
            return cls(asked, None)
        if "samples" in few and not few.get("split"):
            return cls(asked, None)
        examples = few.get("split") or config.get("fewshot_split") or config.get("training_split")
        return cls(asked, str(examples or asked))

    def files(self, folder: str, name: str) -> str:
        """A description in words of the files in ``folder`` that would serve."""
        text = f"{folder}/{name}/{self.asked}.jsonl"
        if self.examples is None:
            return f"{folder}/{name}.jsonl or {text}"
        if self.examples == self.asked:
            return text
        return f"{text} and {folder}/{name}/{self.examples}.jsonl (worked examples)"


def with_local_data(config: Config, folder: Path, names: tuple[str, ...], needs: Needs) -> Config:
    """The configuration, changed to read files of ``folder``.

    The first of ``names`` that has any file there is used. Raises ``OptionError`` if the folder
    lacks a split that the task reads, and names the files that would serve. Reading the data
    raises ``RecordError`` for a file that is not one JSON object for each document.
    """
    found = next((paths for name in names if (paths := _paths(folder, name, needs))), None)
    wanted = [needs.asked, *([needs.examples] if needs.examples else [])]
    if found is None or any(split not in found for split in wanted):
        serves = needs.files(str(folder), names[-1])
        raise OptionError(f"--data-dir {folder}: lacks data for {names[0]}; {serves} would serve")
    paths = {split: found[split] for split in wanted}

    def load(**_: Any) -> dict[str, Any]:
        return {split: _read(path, split) for split, path in paths.items()}

    # lm_eval looks up the splits that a configuration names, so that only loaded ones may stay.
    kept = {
        key: value
        for key, value in config.items()
        if not (key.endswith("_split") and value not in paths)
    }
    return {**kept, "custom_dataset": load}


def _paths(folder: Path, name: str, needs: Needs) -> dict[str, Path]:
    """The files found in ``folder`` under ``name``, by split."""
    found: dict[str, Path] = {}
    for split in filter(None, (needs.asked, needs.examples)):
        stems = [folder / name / split]
        if split == needs.asked or name == "mbpp":  # MBPP's own file holds every split
            stems.append(folder / name)
        files = [stem.with_name(stem.name + end) for stem in stems for end in _ENDS]
        if path := next((path for path in files if path.is_file()), None):
            found[split] = path
    return found


def _read(path: Path, split: str) -> Any:
    if path.suffix == ".parquet":
        return datasets.Dataset.from_parquet(str(path))
    if path.suffix == ".jsonl":
        documents = [line for _, line in read_lines(path)]
    else:
        try:
            documents = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise RecordError(f"{path}: not JSON: {error}") from error
    if path.stem == "mbpp":
        # The paper's division of MBPP (arXiv 2108.07732): few-shot prompts, then the test set.
        span = {"prompt": range(1, 11), "test": range(11, 511)}[split]
        documents = [document for document in documents if document["task_id"] in span]
    if not documents or not all(isinstance(document, dict) for document in documents):
        raise RecordError(f"{path}: holds no documents, one JSON object each")
    return datasets.Dataset.from_list(documents)
