"""The end of an answer: end tokens, stop strings, a limit of tokens.

This module knows a canvas and the text of its ids, nothing of networks, policies or strategies.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from entropycache.core.sequence import Sequence as Canvas
from entropycache.core.steps import Commit, Positions
from entropycache.io.tokenizer import Tokenizer

UNFINISHED = "\ufffd"
"""The replacement character: the text of a character whose bytes are not all committed yet."""


@dataclass
class StopCriteria:
    """The conditions that end the answer of one request, and the answer's text.

    An answer ends at the first end token, at the first stop string, or after ``limit`` tokens. The
    one that comes first counts, once everything before it is committed. Decoding ends there too if
    it may stop ``early``; a complete answer has the same text either way. After ``max_steps`` steps
    decoding ends in any case.
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
        """The position of the first end token committed so far; nothing behind it belongs to the
        answer. ``None`` while there is none, or if decoding may not stop early.
        """
        return self._first_end if self.early else None

    def note(self, commit: Commit) -> None:
        """Note the first end token of a commit, for ``cut``."""
        ends = self.tokenizer.end_ids
        pairs = zip(commit.positions.tolist(), commit.tokens.tolist(), strict=True)
        first = min((position for position, token in pairs if token in ends), default=None)
        if first is not None:
            self._first_end = first if self._first_end is None else min(first, self._first_end)

    def reached(self, canvas: Canvas) -> bool:
        """True if decoding ends after this step.

        Call it once after each step: only tokens committed since the last call are looked at.
        """
        if self.max_steps is not None and canvas.steps >= self.max_steps:
            return True
        return self.early and self._complete(canvas)

    def _complete(self, canvas: Canvas) -> bool:
        """True if no later commit can change the text."""
        first = canvas.first_masked() - canvas.start
        # Without a longer committed prefix nothing can have ended, and decoding text is not free.
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
        """Ids of the answer, ``(n,)``: the committed prefix up to the first end token or the limit.

        With a stop string, the shortest prefix that holds all text in front of it.
        """
        ids, _ = self._prefix(canvas)
        text, cut = self._cut(self.tokenizer.decode(ids)) if self.stop else ("", False)
        if not cut:
            return ids
        # A stop string may start inside a token, so the ids cannot be searched for it themselves.
        enough = (n for n in range(len(ids)) if len(self.tokenizer.decode(ids[:n])) >= len(text))
        return ids[: next(enough, len(ids))]

    def settled(self, canvas: Canvas) -> str:
        """The part of the answer's text that no later commit can change.

        It can be shown while decoding goes on: it only grows, and the text of ``finish`` starts
        with it.
        """
        ids, ended = self._prefix(canvas)
        text, cut = self._cut(self.tokenizer.decode(ids))
        if cut or ended or len(ids) == self.limit or canvas.done:
            return text
        # Held back: bytes of a character that later tokens complete, and a tail that they may turn
        # into a stop string.
        text = text.rstrip(UNFINISHED)
        longest = max(map(len, self.stop), default=1)
        starts = range(max(0, len(text) - longest + 1), len(text))
        return text[: next((i for i in starts if self._may_stop(text[i:])), None)]

    def _may_stop(self, tail: str) -> bool:
        """True if a stop string may start where ``tail`` does."""
        return any(s.startswith(tail) for s in self.stop)

    def finish(self, canvas: Canvas) -> tuple[str, str]:
        """The answer's text, and its finish reason: ``stop`` for an end token or a stop string,
        else ``length``.
        """
        ids, ended = self._prefix(canvas)
        text, cut = self._cut(self.tokenizer.decode(ids))
        return text, "stop" if cut or ended else "length"

    def _prefix(self, canvas: Canvas) -> tuple[Positions, bool]:
        """Committed ids ``(n,)`` up to the first end token or the limit, and ``True`` for an end
        token.
        """
        prefix = canvas.canvas[canvas.start : canvas.first_masked()][: self.limit]
        ends = np.flatnonzero(np.isin(prefix, list(self.tokenizer.end_ids)))
        return (prefix[: ends[0]], True) if len(ends) else (prefix, False)

    def _cut(self, text: str) -> tuple[str, bool]:
        """Text in front of the stop string that is complete first, and ``True`` if there is one.

        Of two that overlap, the one that ends first counts and not the one that starts first: text
        that comes later must not change an answer that has ended.
        """
        ends = [(text.find(s) + len(s), text.find(s)) for s in self.stop if s in text]
        return (text[: min(ends)[1]], True) if ends else (text, False)
