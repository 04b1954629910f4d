"""The end of an answer: end tokens, stop strings, a limit of tokens.

It knows a canvas and how its ids read as text, nothing of networks, policies or strategies.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from entropycache.core.sequence import Sequence as Canvas
from entropycache.core.steps import Commit, Positions
from entropycache.io.tokenizer import Tokenizer

UNFINISHED = "\ufffd"
"""What a character reads as whose bytes are not all there."""


@dataclass
class StopCriteria:
    """When the answer of one request is complete, and its text.

    An answer ends at the first end token, at the first stop string, or after ``limit`` tokens,
    whichever comes first once everything before it is committed. Decoding ends there too where it
    may stop ``early``, and after ``max_steps`` steps in any case; the text of a complete answer is
    the same either way.
    """

    tokenizer: Tokenizer
    stop: tuple[str, ...] = ()
    limit: int | None = None
    early: bool = True
    max_steps: int | None = None
    _first_end: int | None = field(default=None, init=False)
    _checked: int = field(default=0, init=False)

    @property
    def cut(self) -> int | None:
        """The position of the first end token committed so far, where decoding may stop early:
        nothing behind it belongs to the answer. ``None`` while there is none.
        """
        return self._first_end if self.early else None

    def note(self, commit: Commit) -> None:
        """Take note of the end tokens of a commit."""
        ends = self.tokenizer.end_ids
        found = zip(commit.positions.tolist(), commit.tokens.tolist(), strict=True)
        first = min((position for position, token in found if token in ends), default=None)
        if first is not None:
            self._first_end = first if self._first_end is None else min(first, self._first_end)

    def reached(self, canvas: Canvas) -> bool:
        """Whether decoding ends here. Asked once after each step."""
        if self.max_steps is not None and canvas.steps >= self.max_steps:
            return True
        return self.early and self._complete(canvas)

    def _complete(self, canvas: Canvas) -> bool:
        """Whether nothing that may still be committed can change the text."""
        first = canvas.first_masked() - canvas.start
        if first <= self._checked:
            return False
        fresh = canvas.canvas[canvas.start + self._checked : canvas.start + first]
        self._checked = first
        if self.limit is not None and first >= self.limit:
            return True
        if np.isin(fresh, list(self.tokenizer.end_ids)).any():
            return True
        return bool(self.stop) and self._cut(self.tokenizer.decode(self._prefix(canvas)[0]))[1]

    def answer(self, canvas: Canvas) -> Positions:
        """Ids of the answer: the committed prefix up to its first end token, the limit, or the
        token in which a stop string begins.
        """
        ids, _ = self._prefix(canvas)
        text, cut = self._cut(self.tokenizer.decode(ids)) if self.stop else ("", False)
        if not cut:
            return ids
        enough = (n for n in range(len(ids)) if len(self.tokenizer.decode(ids[:n])) >= len(text))
        return ids[: next(enough, len(ids))]

    def settled(self, canvas: Canvas) -> str:
        """The part of the answer's text that no later commit can change: what may be shown while
        decoding goes on. It only grows, and ``finish`` begins with it.
        """
        ids, ended = self._prefix(canvas)
        text, cut = self._cut(self.tokenizer.decode(ids))
        if cut or ended or len(ids) == self.limit or canvas.done:
            return text
        text = text.rstrip(UNFINISHED)
        longest = max(map(len, self.stop), default=1)
        begins = range(max(0, len(text) - longest + 1), len(text))
        return text[: next((i for i in begins if self._may_stop(text[i:])), None)]

    def _may_stop(self, tail: str) -> bool:
        """Whether a stop string may begin where ``tail`` does."""
        return any(s.startswith(tail) for s in self.stop)

    def finish(self, canvas: Canvas) -> tuple[str, str]:
        """The answer's text and why it ended: ``stop`` (end token or stop string) or ``length``."""
        ids, ended = self._prefix(canvas)
        text, cut = self._cut(self.tokenizer.decode(ids))
        return text, "stop" if cut or ended else "length"

    def _prefix(self, canvas: Canvas) -> tuple[Positions, bool]:
        """The committed ids up to the first end token or the limit, and whether it was a token."""
        prefix = canvas.canvas[canvas.start : canvas.first_masked()][: self.limit]
        ends = np.flatnonzero(np.isin(prefix, list(self.tokenizer.end_ids)))
        return (prefix[: ends[0]], True) if len(ends) else (prefix, False)

    def _cut(self, text: str) -> tuple[str, bool]:
        """Tokenizer before the stop string that is complete first, and whether there was one.

        The first to be complete, not the first to begin: the rest of a text decides nothing.
        """
        found = [(text.find(s) + len(s), text.find(s)) for s in self.stop if s in text]
        return (text[: min(found)[1]], True) if found else (text, False)
