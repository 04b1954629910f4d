"""The journal of an evaluation: finished results beside its output, so that a run can be resumed.

It knows keys and JSON values, not their meaning.
"""

from __future__ import annotations

import hashlib
import json
from glob import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any

from entropycache.errors import RecordError
from entropycache.io.jsonl import JsonlWriter, read_finished_lines


def digest(*parts: Any) -> str:
    """Return a digest of 16 hexadecimal digits of everything that decides a result.

    ``parts`` are JSON values. This package's version is included.
    """
    text = json.dumps([version("entropycache"), *parts], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Journal:
    """Finished results by key, one line each, of all ranks of an evaluation.

    The output ``FILE.json`` has the journal ``FILE.partial.jsonl``, and further ranks write
    ``FILE.partial.RANK.jsonl``. Each rank locks and appends to its own file. It reads the files of
    all ranks once, when it opens, because a resumed run may have another number of ranks.

    Raises ``OptionError`` if its file cannot be written or another process holds the lock, and
    ``RecordError`` for a line that does not belong to a journal.
    """

    def __init__(self, output: Path, rank: int = 0) -> None:
        self._output = output
        self._found: dict[str, dict[str, Any]] = {}
        suffix = f".{rank}" if rank else ""
        own = output.with_name(f"{output.stem}.partial{suffix}.jsonl")
        self._file = JsonlWriter(own, f"--output {output}")
        try:
            # Read once the lock is there: no other process adds to the own file from here on.
            for path in self._files():
                self._read(path)
        except BaseException:
            self._file.close()
            raise

    def get(self, key: str) -> dict[str, Any] | None:
        """Return the result under ``key``, or ``None`` if there is none."""
        return self._found.get(key)

    def add(self, key: str, result: dict[str, Any]) -> None:
        """Keep a result; it has been written to the file when this returns."""
        self._found[key] = result
        self._file.write({"key": key, **result})

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def remove(self) -> None:
        """Delete the files of all ranks. Call it once the report holds their results."""
        for path in self._files():
            path.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        name = escape(self._output.stem) + ".partial"
        found = (self._output.parent.glob(name + end) for end in (".jsonl", ".*.jsonl"))
        return sorted(path for paths in found for path in paths)

    def _read(self, path: Path) -> None:
        for number, line in read_finished_lines(path):
            if not isinstance(line, dict) or not isinstance(line.get("key"), str):
                raise RecordError(f"{path}, line {number}: not a line of an evaluation's journal")
            self._found[line.pop("key")] = line
