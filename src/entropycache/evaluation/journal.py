"""What a run has finished, appended at once to files beside its output, so that a killed run goes
on where it was.

It knows keys and JSON values, nothing of what they mean.
"""

from __future__ import annotations

import hashlib
import json
from glob import escape
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any

from entropycache.errors import OptionError, RecordError
from entropycache.io.jsonl import drop_unfinished_line, read_lines


def digest(*parts: Any) -> str:
    """A short digest of what decides a result, this package's version included."""
    text = json.dumps([version("entropycache"), *parts], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Journal:
    """Finished results by key, one line each; every rank appends to a file of its own and reads
    all.

    ``FILE.json`` has ``FILE.partial.jsonl``, and ``FILE.partial.RANK.jsonl`` for further ranks.
    """

    def __init__(self, output: Path, rank: int = 0) -> None:
        self._output = output
        self._found: dict[str, dict[str, Any]] = {}
        for path in self._files():
            self._read(path)
        suffix = f".{rank}" if rank else ""
        own = output.with_name(f"{output.stem}.partial{suffix}.jsonl")
        try:
            if own.exists():
                drop_unfinished_line(own)
            self._file = own.open("a", encoding="utf-8")
        except OSError as error:
            raise OptionError(f"--output {output}: cannot be written: {error.strerror}") from error

    def get(self, key: str) -> dict[str, Any] | None:
        """The result under ``key``, if it is there."""
        return self._found.get(key)

    def add(self, key: str, result: dict[str, Any]) -> None:
        """Keep a result; it is on disk when this returns."""
        self._found[key] = result
        self._file.write(json.dumps({"key": key, **result}, ensure_ascii=False) + "\n")
        self._file.flush()

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def remove(self) -> None:
        """Delete the files of all ranks, once their results stand elsewhere."""
        for path in self._files():
            path.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        name = escape(self._output.stem) + ".partial"
        found = (self._output.parent.glob(name + end) for end in (".jsonl", ".*.jsonl"))
        return sorted(path for paths in found for path in paths)

    def _read(self, path: Path) -> None:
        for number, line in read_lines(path, unfinished=True):
            if not isinstance(line, dict) or not isinstance(line.get("key"), str):
                raise RecordError(f"{path}, line {number}: not a line of an evaluation's journal")
            self._found[line.pop("key")] = line
