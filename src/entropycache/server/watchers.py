"""Watches that turn the steps of a sequence into values for its client.

They send text that is final, or the whole canvas. They run on the engine's thread between two
passes, and know nothing of HTTP.
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
    """A token of the answer with its log-probability in nats.

    ``top`` holds the ids and log-probabilities of the most probable tokens, the largest first.
    """

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class Delta:
    """A piece of an answer: the text since the last piece, and the tokens that start in it."""

    text: str
    tokens: list[Scored] = field(default_factory=list)


class TextWatch:
    """Returns the whole text of an answer at its end.

    Tokens come with it if their log-probabilities were asked for.
    """

    def __init__(self, request: Request) -> None:
        self._request = request
        self._tokenizer: Tokenizer = request.stopping.tokenizer
        self._scored: dict[int, Scored] = {}
        self._told = self._tokens = 0

    def restart(self, request: Request) -> None:
        """Continue with ``request``, from the text that was returned before."""
        self._request = request
        self._scored.clear()

    def step(self, step: Step) -> Delta | None:
        """Return ``None``, and keep the log-probabilities of the step's tokens for later."""
        logprobs = step.scores.logprobs
        if logprobs is not None:
            for position, token, row in zip(
                step.commit.positions.tolist(),
                step.commit.tokens.tolist(),
                step.commit.chosen.tolist(),
                strict=True,
            ):
                top = zip(logprobs.tokens[row].tolist(), logprobs.values[row].tolist(), strict=True)
                self._scored[position] = Scored(token, float(logprobs.own[row]), tuple(top))
        return None

    def end(self, completion: Completion) -> Delta:
        """The part of the answer that was not returned yet."""
        count = len(self._request.stopping.answer(self._request.sequence))
        return self._delta(completion.text, count)

    def _delta(self, text: str, count: int) -> Delta:
        start = self._request.sequence.start
        fresh = range(start + self._tokens, start + count) if self._scored else ()
        delta = Delta(text[self._told :], [self._scored[position] for position in fresh])
        self._told, self._tokens = len(text), count
        return delta


class Streamed(TextWatch):
    """Returns text as soon as no later commit can change it, and the rest at the end."""

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self._final = request.sequence.start

    def restart(self, request: Request) -> None:
        """Continue with ``request``, from the text that was returned before."""
        super().restart(request)
        self._final = request.sequence.start

    def step(self, step: Step) -> Delta | None:
        """The text that has become final with this step, or ``None`` if there is none."""
        super().step(step)
        sequence = self._request.sequence
        final = sequence.first_masked()
        # Once it is done, ``end`` returns the rest: the text may be cut at a stop string.
        if sequence.done or final == self._final:
            return None
        self._final = final
        text = self._request.stopping.settled(sequence)
        if len(text) <= self._told:
            return None
        return self._delta(text, self._covering(text) if self._scored else 0)

    def _covering(self, text: str) -> int:
        """The number of tokens that ``text`` takes, counted as ``StopCriteria.answer`` does."""
        sequence, count = self._request.sequence, self._tokens
        ids = sequence.canvas[sequence.start : self._final]
        while count < len(ids) and len(self._tokenizer.decode(ids[:count])) < len(text):
            count += 1
        return count


class CanvasWatch:
    """Returns an event for every step: the canvas, the positions computed and why, the commit."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._next = 0

    def restart(self, request: Request) -> None:
        """Continue with ``request``; its first steps, returned before, are left out."""
        self._request = request

    def opening(self) -> dict[str, Any]:
        """The event before the first step: the canvas, and the prompt's tokens as text."""
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
        """The event of a step, or ``None`` if it was returned before a restart.

        ``tokens``, ``text``, ``confidence`` and ``entropy`` (nats) are in the order of
        ``positions``. ``rows`` is absent if every position was computed. ``seconds`` count from the
        start of decoding.
        """
        if step.index < self._next:
            return None
        self._next = step.index + 1
        commit, text = step.commit, self._request.stopping.tokenizer
        event: dict[str, Any] = {
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
            event["rows"] = step.rows.tolist()
        return event

    def end(self, completion: Completion) -> dict[str, Any]:
        """The last event: the answer and its cost."""
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
