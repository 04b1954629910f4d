"""Traces: JSONL files that hold every step of every request, enough to rebuild each canvas.

Format, version 1, one JSON object a line. The first line is ``{"trace": 1, "model": …, "mask_id":
…}``. A line with ``canvas`` opens a request: its name under ``request``, its initial token ids,
the ``start`` of the generated region, and the ``prompt``'s tokens as text. A line with ``step`` is
one step: ``reason``, ``full``, ``rows`` (computed positions; absent where all were), ``window``,
``positions``, ``tokens``, ``confidence`` and ``entropy`` (nats) of what was committed, and its
``text``. A request that is opened again, by a run that was resumed, starts anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entropycache.engine.output import Frame
from entropycache.errors import RecordError
from entropycache.io.jsonl import JsonlWriter, read_finished_lines
from entropycache.io.tokenizer import Tokenizer

VERSION = 1


class TraceWriter:
    """Writes frames to a file; give its ``write`` to ``Engine.generate`` as ``on_step``.

    The file is locked from ``__enter__``, or from the first step, until ``__exit__``. It changes at
    the first step, so that a request that is refused leaves an older trace alone. ``names`` are the
    requests' names by number; without them the numbers stay. ``resumed`` appends to a trace that is
    there already. Opening raises ``OptionError`` where the file cannot be written or another
    process writes to it, and ``RecordError`` where what is to be resumed is no trace.
    """

    def __init__(
        self,
        path: Path,
        text: Tokenizer,
        model: str,
        names: Sequence[str | int] | None = None,
        resumed: bool = False,
    ) -> None:
        self._path = path
        self._text = text
        self._model = model
        self._names = names
        self._resumed = resumed
        self._file: JsonlWriter | None = None
        self._header: dict[str, Any] | None = None

    def __enter__(self) -> TraceWriter:
        self._file = self._open()
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, frame: Frame) -> None:
        """Add one step, and before a request's first one its initial canvas."""
        step, commit = frame.step, frame.step.commit
        name = self._names[step.request] if self._names else step.request
        if step.index == 0:
            canvas = frame.canvas.copy()
            canvas[commit.positions] = self._text.mask_id
            pieces = [self._text.token(i) for i in canvas[: frame.start]]
            self._put(
                {"request": name, "canvas": canvas.tolist(), "start": frame.start, "prompt": pieces}
            )
        record = {
            "request": name,
            "step": step.index,
            "reason": step.plan.reason.value,
            "full": step.full,
            "window": step.window.positions.tolist(),
            "positions": commit.positions.tolist(),
            "tokens": commit.tokens.tolist(),
            "text": [self._text.token(i) for i in commit.tokens],
            "confidence": [round(c, 6) for c in step.scores.confidence[commit.chosen].tolist()],
            "entropy": [round(e, 6) for e in step.entropies.tolist()],
        }
        if not step.full:
            record["rows"] = step.rows.tolist()
        self._put(record)

    def _put(self, record: dict[str, Any]) -> None:
        if self._file is None:
            self._file = self._open()
        if self._header is not None:
            self._file.write(self._header)
            self._header = None
        self._file.write(record)

    def _open(self) -> JsonlWriter:
        file = JsonlWriter(self._path)
        if self._resumed and not file.empty:
            try:
                read_trace(self._path)
            except RecordError:
                file.close()
                raise
        else:
            file.start_over()
            self._header = {"trace": VERSION, "model": self._model, "mask_id": self._text.mask_id}
        return file


@dataclass
class TracedRequest:
    """One request of a trace.

    ``canvas`` holds the initial token ids, ``(length,)``, and ``start`` is the first generated
    position. ``prompt`` are the prompt's tokens as text, ``steps`` the records of the steps.
    """

    canvas: NDArray[np.int64]
    start: int
    prompt: list[str]
    steps: list[dict[str, Any]] = field(default_factory=list)

    def canvases(self) -> Iterator[NDArray[np.int64]]:
        """Yield the canvas after each step, a copy of its own each time."""
        canvas = self.canvas.copy()
        for step in self.steps:
            canvas[step["positions"]] = step["tokens"]
            yield canvas.copy()


@dataclass
class Trace:
    """The content of a trace file: its header and its requests by name."""

    header: dict[str, Any]
    requests: dict[str | int, TracedRequest]


def read_trace(path: Path) -> Trace:
    """Return the content of a trace; one whose writing was cut short is read as far as it goes.

    Raises ``RecordError`` with the line for a file that is not a trace, or of another version.
    """
    trace = Trace({}, {})
    for number, line in read_finished_lines(path):
        try:
            _take(trace, line)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RecordError(
                f"{path}, line {number}: not a trace of version {VERSION}: {error}"
            ) from error
    trace.requests = {name: r for name, r in trace.requests.items() if r.steps}
    if not trace.requests:
        raise RecordError(f"{path}: the trace holds no step")
    return trace


def _take(trace: Trace, record: dict[str, Any]) -> None:
    if not trace.header:
        if record.get("trace") != VERSION:
            raise ValueError(f"the first line says {record.get('trace')!r}")
        trace.header = record
    elif "canvas" in record:
        canvas = np.array(record["canvas"], np.int64)
        prompt = [str(piece) for piece in record["prompt"]]
        trace.requests[record["request"]] = TracedRequest(canvas, int(record["start"]), prompt)
    else:
        for key in _STEP:
            record[key]
        trace.requests[record["request"]].steps.append(record)


_STEP = ("step", "reason", "full", "window", "positions", "tokens", "entropy", "text")
