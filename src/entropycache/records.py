"""JSONL files of prompts in, completions out: one record a line, resumable.

It knows records and files; what a prompt gives comes from the engine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from entropycache.completion import Completion, Frame
from entropycache.config import GenerationConfig
from entropycache.engine import Engine, Prompt
from entropycache.errors import OptionError, RecordError
from entropycache.policies import make_policy

PROMPT_KEYS = ("prompt", "chat", "prompt_ids")


@dataclass(frozen=True)
class Record:
    """One line of an input file: its id, its prompt, and its settings."""

    id: str | int
    prompt: Prompt
    config: GenerationConfig


def read_records(path: Path, base: GenerationConfig) -> list[Record]:
    """All records of a file, checked before anything is decoded; a wrong line raises
    ``RecordError`` with its number.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path}: cannot be read: {error}") from error
    records: list[Record] = []
    seen: set[str | int] = set()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = _record(json.loads(line), base)
        except (OptionError, RecordError, ValueError) as error:
            raise RecordError(f"{path}, line {number}: {error}") from error
        if record.id in seen:
            raise RecordError(f"{path}, line {number}: id {record.id!r} occurs twice")
        seen.add(record.id)
        records.append(record)
    return records


def _record(data: Any, base: GenerationConfig) -> Record:
    if not isinstance(data, dict) or not isinstance(data.get("id"), (str, int)):
        raise RecordError("a record is an object with an id (text or a whole number)")
    given = [key for key in PROMPT_KEYS if key in data]
    if len(given) != 1:
        raise RecordError(
            f"a record holds one of {', '.join(PROMPT_KEYS)}, "
            f"this one {' and '.join(given) or 'none'}"
        )
    prompt: Any = data[given[0]]
    kind: type = str if given[0] == "prompt" else list
    fits = isinstance(prompt, kind)
    if not fits:
        raise RecordError(
            f"{given[0]} must be {'text' if kind is str else 'a list'}, not {prompt!r}"
        )
    options = {key: value for key, value in data.items() if key not in ("id", *PROMPT_KEYS)}
    config = GenerationConfig.of(base, **options)
    make_policy(config.policy)
    return Record(data["id"], prompt, config)


def finished_ids(path: Path) -> set[str | int]:
    """Ids an output file already holds. A last line that a kill cut short is taken off the file."""
    if not path.exists():
        return set()
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines.pop()
        path.write_text("".join(lines), encoding="utf-8")
    try:
        return {json.loads(line)["id"] for line in lines if line.strip()}
    except (ValueError, KeyError, TypeError) as error:
        raise RecordError(
            f"{path}: exists and is not an output of this command: {error!r}"
        ) from error


def decode_file(
    engine: Engine,
    records: list[Record],
    output: Path,
    batch_size: int,
    on_step: Callable[[Frame], None] | None = None,
) -> Iterator[Completion]:
    """Decode the records that ``output`` does not hold yet, and append each completion as it
    finishes.
    """
    done = finished_ids(output)
    todo = [record for record in records if record.id not in done]
    with output.open("a", encoding="utf-8") as file:
        for i, completion in engine.run([(r.prompt, r.config) for r in todo], batch_size, on_step):
            file.write(
                json.dumps({"id": todo[i].id, **asdict(completion)}, ensure_ascii=False) + "\n"
            )
            file.flush()
            yield completion
