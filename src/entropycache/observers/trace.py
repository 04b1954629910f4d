"""Traces: JSONL files that hold every step of every request, enough to rebuild each canvas.

Format, version 1, one JSON object a line. The first line is ``{"trace": 1, "model": …, "mask_id":
…}``. A line with ``canvas`` opens a request (its initial token ids, ``start`` of the generated
region, ``options``); a line with ``step`` is one step: ``reason``, ``full``, ``rows`` (computed
positions; absent where all were), ``window``, ``positions``, ``tokens``, ``confidence`` and
``entropy`` (nats) of what was committed, ``text`` of these tokens.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from entropycache.completion import Frame
from entropycache.errors import RecordError
from entropycache.text import Text

VERSION = 1


class TraceWriter:
    """Writes frames to an open text file; give its ``write`` to ``Engine.generate`` as
    ``on_step``.
    """

    def __init__(self, file: IO[str], text: Text, model: str) -> None:
        self._file = file
        self._text = text
        self._put(
            {
                "trace": VERSION,
                "model": model,
                "mask_id": text.mask_id,
                "end_ids": sorted(text.end_ids),
            }
        )

    def write(self, frame: Frame) -> None:
        """Add one step, and before a request's first one the canvas it began with."""
        step, commit = frame.step, frame.step.commit
        if step.index == 0:
            canvas = frame.canvas.copy()
            canvas[commit.positions] = self._text.mask_id
            pieces = [self._text.token(i) for i in canvas[: frame.start]]
            self._put(
                {
                    "request": step.request,
                    "canvas": canvas.tolist(),
                    "start": frame.start,
                    "prompt": pieces,
                }
            )
        record = {
            "request": step.request,
            "step": step.index,
            "reason": step.plan.reason.value,
            "full": step.full,
            "window": step.window.positions.tolist(),
            "positions": commit.positions.tolist(),
            "tokens": commit.tokens.tolist(),
            "text": [self._text.token(i) for i in commit.tokens],
            "confidence": [round(c, 6) for c in step.scores.confidence[commit.chosen].tolist()],
            "entropy": [round(e, 6) for e in step.entropies().tolist()],
        }
        if not step.full:
            record["rows"] = step.rows.tolist()
        self._put(record)

    def _put(self, record: dict[str, Any]) -> None:
        self._file.write(json.dumps(record, ensure_ascii=False) + "\n")


@dataclass
class TracedRequest:
    """One request of a trace: its initial canvas, where generation begins, prompt pieces, and its
    step records.
    """

    canvas: NDArray[np.int64]
    start: int
    prompt: list[str]
    steps: list[dict[str, Any]] = field(default_factory=list)

    def canvases(self) -> Iterator[NDArray[np.int64]]:
        """The canvas after each step."""
        canvas = self.canvas.copy()
        for step in self.steps:
            canvas[step["positions"]] = step["tokens"]
            yield canvas.copy()


@dataclass
class Trace:
    """A trace file, read: its header and its requests by number."""

    header: dict[str, Any]
    requests: dict[int, TracedRequest]


def read_trace(path: Path) -> Trace:
    """Read a trace; a file that is not one, or of another version, raises ``RecordError`` with the
    line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path}: cannot be read: {error}") from error
    trace = Trace({}, {})
    for number, line in enumerate(lines, 1):
        try:
            _take(trace, json.loads(line))
        except (ValueError, KeyError, TypeError) as error:
            raise RecordError(
                f"{path}, line {number}: not a trace of version {VERSION}: {error}"
            ) from error
    if not trace.requests:
        raise RecordError(f"{path}: the trace holds no request")
    return trace


def _take(trace: Trace, record: dict[str, Any]) -> None:
    if not trace.header:
        if record.get("trace") != VERSION:
            raise ValueError(f"the first line says {record.get('trace')!r}")
        trace.header = record
    elif "canvas" in record:
        canvas = np.array(record["canvas"], np.int64)
        trace.requests[record["request"]] = TracedRequest(canvas, record["start"], record["prompt"])
    else:
        trace.requests[record["request"]].steps.append(record)
