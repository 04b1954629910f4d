"""JSONL files of prompts, one record a line, and the records that an output file lacks.

The module knows records and files. What a prompt gives comes from the engine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from entropycache.config.generation import GenerationConfig
from entropycache.errors import OptionError, RecordError
from entropycache.io.jsonl import JsonlWriter, read_lines
from entropycache.io.tokenizer import Prompt

_START = b'{"id": '
PROMPT_KEYS = ("prompt", "chat", "prompt_ids")


@dataclass(frozen=True)
class Record:
    """One line of an input file: its id, its prompt and its settings."""

    id: str | int
    prompt: Prompt
    config: GenerationConfig

    def key(self, model: str) -> str:
        """Return a short digest of what decides the completion: model, prompt and settings."""
        text = json.dumps([model, self.prompt, asdict(self.config)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_records(
    path: Path,
    base: GenerationConfig,
    check: Callable[[GenerationConfig], None] = lambda config: None,
) -> list[Record]:
    """Return all records of a file, checked before anything is decoded.

    A record's own settings replace those of ``base``. ``check`` raises ``OptionError`` for settings
    that are wrong for a reason this module does not know. Raises ``RecordError`` with the number of
    a wrong line.
    """
    records: list[Record] = []
    seen: set[str | int] = set()
    for number, data in read_lines(path):
        try:
            record = _record(data, base)
            check(record.config)
        except (OptionError, RecordError) as error:
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
    kind, accepted = (str, "text") if given[0] == "prompt" else (list, "a list")
    if not isinstance(prompt, kind):
        raise RecordError(f"{given[0]} must be {accepted}, not {prompt!r}")
    options = {key: value for key, value in data.items() if key not in ("id", *PROMPT_KEYS)}
    config = base.merge(**options)
    return Record(data["id"], prompt, config)


def unfinished(records: list[Record], output: JsonlWriter, model: str) -> list[Record]:
    """Return the records that ``output``, open for writing, does not hold yet.

    Raises ``RecordError`` where the file is not an output of this command, or holds one of the
    records decoded from another prompt, with other settings or by another model.
    """
    wanted = {record.id: record.key(model) for record in records}
    try:
        found = [(data["id"], data["key"]) for _, data in output.lines()]
    except (RecordError, KeyError, TypeError) as error:
        raise RecordError(f"{output.path}: exists and is not an output of this command") from error
    if not found and not output.empty and not _is_first_line(output.path):
        raise RecordError(f"{output.path}: exists and is not an output of this command")
    held: set[str | int] = set()
    for name, key in found:
        if wanted.get(name, key) != key:
            raise RecordError(
                f"{output.path}: holds id {name!r} from another prompt, other settings or another "
                "model"
            )
        held.add(name)
    return [record for record in records if record.id not in held]


def _is_first_line(path: Path) -> bool:
    """Tell the first line of an output, of which a kill may have left a part, from other text."""
    with path.open("rb") as file:
        start = file.read(len(_START))
    return _START.startswith(start)
