"""Answers in the shape of OpenAI's API, whole and in chunks. It knows completions, not HTTP."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any

from entropycache.engine.output import Completion
from entropycache.server.watchers import Delta, Scored

SMALLEST = -9999.0
"""OpenAI's value for the logarithm of 0, which JSON cannot write."""


def usage(completions: Sequence[Completion], choices: int) -> dict[str, int]:
    """Token counts of a request: each prompt counts once, and the answer of every choice.

    ``completions`` are in the order of the prompts, ``choices`` for each.
    """
    prompt = sum(c.prompt_tokens for c in completions[::choices])
    answer = sum(c.answer_tokens for c in completions)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": answer,
        "total_tokens": prompt + answer,
    }


class AnswerFormat:
    """Base of the formats: writes the answers to one request, with an id, a time and a model.

    ``token`` returns the text of a token id. ``scored`` in the methods asks for log-probabilities.
    """

    prefix, whole, chunk = "", "", ""

    def __init__(self, model: str, fingerprint: str, token: Callable[[int], str]) -> None:
        self._token = token
        self._head = {
            "id": f"{self.prefix}-{secrets.token_hex(12)}",
            "created": int(time.time()),
            "model": model,
            "system_fingerprint": fingerprint,
        }

    def complete(
        self, found: Sequence[tuple[Completion, Delta]], choices: int, scored: bool
    ) -> dict[str, Any]:
        """The whole answer as a JSON object, from the completions of all choices in order."""
        return {
            **self._head,
            "object": self.whole,
            "choices": [
                self.choice(i, delta, scored, completion.finish_reason)
                for i, (completion, delta) in enumerate(found)
            ],
            "usage": usage([completion for completion, _ in found], choices),
        }

    def part(
        self, choices: list[dict[str, Any]], with_usage: bool, counts: dict[str, int] | None = None
    ) -> dict[str, Any]:
        """One chunk of a stream; ``with_usage`` it has ``usage``, null in all but the last."""
        head = {**self._head, "object": self.chunk, "choices": choices}
        return head | {"usage": counts} if with_usage else head

    def choice(self, index: int, delta: Delta, scored: bool, reason: str) -> dict[str, Any]:
        """One choice of a whole answer."""
        raise NotImplementedError

    def opening(self, index: int) -> dict[str, Any] | None:
        """A choice of the chunk before the first text, or ``None`` if there is no such chunk."""
        return None

    def piece(self, index: int, delta: Delta, scored: bool) -> dict[str, Any]:
        """A choice of a chunk with text."""
        raise NotImplementedError

    def closing(self, index: int, reason: str) -> dict[str, Any]:
        """A choice of the last chunk, with the reason of its end."""
        raise NotImplementedError


class ChatFormat(AnswerFormat):
    """The format of ``/v1/chat/completions``."""

    prefix, whole, chunk = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def choice(self, index: int, delta: Delta, scored: bool, reason: str) -> dict[str, Any]:
        """A choice with a message, its log-probabilities and the finish reason."""
        return {
            "index": index,
            "message": {"role": "assistant", "content": delta.text, "refusal": None},
            "logprobs": self._logprobs(delta.tokens) if scored else None,
            "finish_reason": reason,
        }

    def opening(self, index: int) -> dict[str, Any]:
        """A choice with the assistant's role and no text."""
        return self._delta(index, {"role": "assistant", "content": ""}, None, None)

    def piece(self, index: int, delta: Delta, scored: bool) -> dict[str, Any]:
        """A choice with a piece of text and its log-probabilities."""
        logprobs = self._logprobs(delta.tokens) if scored else None
        return self._delta(index, {"content": delta.text}, logprobs, None)

    def closing(self, index: int, reason: str) -> dict[str, Any]:
        """A choice with the finish reason and no text."""
        return self._delta(index, {}, None, reason)

    def _delta(self, index: int, delta: Any, logprobs: Any, reason: str | None) -> dict[str, Any]:
        return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason}

    def _logprobs(self, tokens: list[Scored]) -> dict[str, Any]:
        content = [
            self._one(t.token_id, t.logprob)
            | {"top_logprobs": [self._one(*pair) for pair in t.top]}
            for t in tokens
        ]
        return {"content": content, "refusal": None}

    def _one(self, token_id: int, logprob: float) -> dict[str, Any]:
        text = self._token(token_id)
        # A token may hold a part of a character: its bytes cannot be had back from such a text.
        data = None if "\ufffd" in text else list(text.encode("utf-8", "surrogatepass"))
        return {"token": text, "logprob": max(logprob, SMALLEST), "bytes": data}


class TextFormat(AnswerFormat):
    """The format of ``/v1/completions``."""

    prefix, whole, chunk = "cmpl", "text_completion", "text_completion"

    def __init__(self, model: str, fingerprint: str, token: Callable[[int], str]) -> None:
        super().__init__(model, fingerprint, token)
        self._offsets: dict[int, int] = {}

    def choice(self, index: int, delta: Delta, scored: bool, reason: str) -> dict[str, Any]:
        """A choice with a text, its log-probabilities and the finish reason."""
        return self.piece(index, delta, scored) | {"finish_reason": reason}

    def piece(self, index: int, delta: Delta, scored: bool) -> dict[str, Any]:
        """A choice with a piece of text and its log-probabilities."""
        return {
            "index": index,
            "text": delta.text,
            "logprobs": self._logprobs(index, delta.tokens) if scored else None,
            "finish_reason": None,
        }

    def closing(self, index: int, reason: str) -> dict[str, Any]:
        """A choice with the finish reason and no text."""
        return self.piece(index, Delta(""), False) | {"finish_reason": reason}

    def _logprobs(self, index: int, tokens: list[Scored]) -> dict[str, Any]:
        # Offsets count from the start of the answer, also in a stream, where they go on.
        offset, offsets = self._offsets.get(index, 0), []
        for token in tokens:
            offsets.append(offset)
            offset += len(self._token(token.token_id))
        self._offsets[index] = offset
        return {
            "tokens": [self._token(t.token_id) for t in tokens],
            "token_logprobs": [max(t.logprob, SMALLEST) for t in tokens],
            "top_logprobs": [
                {self._token(i): max(value, SMALLEST) for i, value in t.top} for t in tokens
            ],
            "text_offset": offsets,
        }
