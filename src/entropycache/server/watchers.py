"""What is told of a sequence while it is decoded: text that is final, or the whole canvas.

Runs on the engine's thread, between two passes. It knows nothing of HTTP.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from entropycache.core.steps import Step
from entropycache.engine.output import Completion
from entropycache.engine.request import Request
from entropycache.io.tokenizer import Tokenizer


@dataclass(frozen=True)
class Scored:
    """A token of the answer with its log-probability, and the most probable tokens beside it."""

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class Delta:
    """A piece of an answer: the text since the last one, and the tokens that begin in it."""

    text: str
    tokens: list[Scored] = field(default_factory=list)


class TextWatch:
    """Tells an answer's text: all of it at the end, or, where it is ``Streamed``, piece by piece.
    Tokens come with it where their log-probabilities were asked for.
    """

    def __init__(self, request: Request) -> None:
        self._request = request
        self._text: Tokenizer = request.stopping.tokenizer
        self._scored: dict[int, Scored] = {}
        self._told = self._tokens = 0

    def restart(self, request: Request) -> None:
        """What was told stays told."""
        self._request = request
        self._scored.clear()

    def step(self, step: Step) -> Delta | None:
        """Nothing; what a step says about its tokens is kept."""
        found = step.scores.logprobs
        if found is not None:
            for position, token, row in zip(
                step.commit.positions.tolist(),
                step.commit.tokens.tolist(),
                step.commit.chosen.tolist(),
                strict=True,
            ):
                top = zip(found.tokens[row].tolist(), found.values[row].tolist(), strict=True)
                self._scored[position] = Scored(token, float(found.own[row]), tuple(top))
        return None

    def end(self, completion: Completion) -> Delta:
        """Whatever was not told yet."""
        count = len(self._request.stopping.answer(self._request.sequence))
        return self._delta(completion.text, count)

    def _delta(self, text: str, count: int) -> Delta:
        start = self._request.sequence.start
        fresh = range(start + self._tokens, start + count) if self._scored else ()
        delta = Delta(text[self._told :], [self._scored[position] for position in fresh])
        self._told, self._tokens = len(text), count
        return delta


class Streamed(TextWatch):
    """Tells text as soon as nothing that is still to come can change it."""

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self._final = request.sequence.start

    def restart(self, request: Request) -> None:
        """What was told stays told."""
        super().restart(request)
        self._final = request.sequence.start

    def step(self, step: Step) -> Delta | None:
        """The text that has become final, if any."""
        super().step(step)
        sequence = self._request.sequence
        final = sequence.first_masked()
        if sequence.done or final == self._final:
            return None
        self._final = final
        text = self._request.stopping.settled(sequence)
        if len(text) <= self._told:
            return None
        return self._delta(text, self._covering(text) if self._scored else 0)

    def _covering(self, text: str) -> int:
        """How many tokens it takes to write ``text``, as ``StopCriteria.answer`` counts them."""
        sequence, count = self._request.sequence, self._tokens
        ids = sequence.canvas[sequence.start : self._final]
        while count < len(ids) and len(self._text.decode(ids[:count])) < len(text):
            count += 1
        return count


class CanvasWatch:
    """Tells every step: the canvas after it, what was computed and why, what was committed."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._next = 0

    def restart(self, request: Request) -> None:
        """What was told stays told."""
        self._request = request

    def opening(self) -> dict[str, Any]:
        """The canvas before the first step, and its prompt as text."""
        sequence, text = self._request.sequence, self._request.stopping.tokenizer
        return {
            "event": "open",
            "canvas": sequence.canvas.tolist(),
            "start": sequence.start,
            "mask_id": sequence.mask_id,
            "end_ids": sorted(text.end_ids),
            "prompt": [text.token(i) for i in sequence.canvas[: sequence.start].tolist()],
        }

    def step(self, step: Step) -> dict[str, Any] | None:
        """One step. ``rows`` is absent where every position was computed; ``entropy`` is in nats,
        in the order of ``positions``.
        """
        if step.index < self._next:
            return None
        self._next = step.index + 1
        commit, text = step.commit, self._request.stopping.tokenizer
        told: dict[str, Any] = {
            "event": "step",
            "step": step.index,
            "seconds": round(time.perf_counter() - self._request.started, 6),
            "reason": step.plan.reason.value,
            "full": step.full,
            "work": step.work,
            "window": step.window.positions.tolist(),
            "positions": commit.positions.tolist(),
            "tokens": commit.tokens.tolist(),
            "text": [text.token(i) for i in commit.tokens.tolist()],
            "confidence": [round(c, 6) for c in step.scores.confidence[commit.chosen].tolist()],
            "entropy": [round(e, 6) for e in step.entropies.tolist()],
            "canvas": self._request.sequence.canvas.tolist(),
        }
        if not step.full:
            told["rows"] = step.rows.tolist()
        return told

    def end(self, completion: Completion) -> dict[str, Any]:
        """The answer and what it cost."""
        return {
            "event": "end",
            "text": completion.text,
            "finish_reason": completion.finish_reason,
            "seconds": round(completion.seconds, 6),
            "steps": completion.forwards,
            "full_passes": completion.full_passes,
            "rows_computed": completion.rows_computed,
            "prompt_tokens": completion.prompt_tokens,
            "completion_tokens": completion.answer_tokens,
            "tokens_per_second": round(completion.tokens_per_second, 3),
        }
