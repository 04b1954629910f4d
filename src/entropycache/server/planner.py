"""Sequences for the engine from a request: prompts encoded, options settled, everything checked.

Whatever the engine could not honour is refused here, with an error that names the field.
"""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from entropycache.config.generation import GenerationConfig
from entropycache.engine.build import resolve_spec
from entropycache.engine.engine import Engine
from entropycache.engine.request import Request
from entropycache.engine.stopping import UNFINISHED
from entropycache.errors import OptionError, PromptError
from entropycache.policies import make_policy
from entropycache.server.errors import invalid
from entropycache.server.schema import (
    OPTIONS,
    CanvasRequest,
    ChatRequest,
    CompletionRequest,
    Decoding,
    Sampled,
)
from entropycache.server.settings import ServerSettings

Make = Callable[[], Request]
"""Returns a new request for the engine at each call, with the same number and settings."""
Prompt = str | list[int] | list[dict[str, str]]


def prompts_of(body: Decoding) -> tuple[str, list[Prompt]]:
    """The name of the field that holds a request's prompts, and the prompts.

    Raises ``ApiError`` if there are both a prompt and messages, or neither.
    """
    if isinstance(body, ChatRequest):
        return "messages", [[message.plain() for message in body.messages]]
    if isinstance(body, CompletionRequest):
        return "prompt", _many(body.prompt)
    assert isinstance(body, CanvasRequest)
    if (body.prompt is None) == (body.messages is None):
        raise invalid("give one of prompt and messages", "prompt")
    if body.messages is not None:
        return "messages", [[message.plain() for message in body.messages]]
    assert body.prompt is not None
    return "prompt", [body.prompt]


def _many(prompt: str | list[str] | list[int] | list[list[int]]) -> list[Prompt]:
    if isinstance(prompt, str):
        return [prompt]
    if not prompt:
        return [[]]
    ids = [item for item in prompt if isinstance(item, int)]
    if ids:
        return [ids]
    return [item for item in prompt if isinstance(item, (str, list))]


def check(body: Decoding, settings: ServerSettings) -> int:
    """The number of sequences that a request asks for, after its fields are checked together.

    Nothing is encoded yet: a request that the queue has no room for costs little. Raises
    ``ApiError`` for fields that do not fit together.
    """
    count = len(prompts_of(body)[1]) * (body.choices if isinstance(body, Sampled) else 1)
    if count > settings.capacity:
        raise invalid(
            f"{count} sequences in one request; this server holds {settings.capacity}", "n"
        )
    if any(UNFINISHED in stop for stop in _stops(body)):
        raise invalid("a stop string must not hold U+FFFD, what broken text reads as", "stop")
    if isinstance(body, Sampled) and body.stream_options and not body.stream:
        raise invalid("stream_options goes with stream", "stream_options")
    if isinstance(body, ChatRequest):
        if body.top_logprobs is not None and not body.logprobs:
            raise invalid("top_logprobs goes with logprobs", "top_logprobs")
        if len({body.max_tokens, body.max_completion_tokens} - {None}) > 1:
            raise invalid("max_tokens and max_completion_tokens are one limit", "max_tokens")
    if isinstance(body, CompletionRequest):
        if body.best_of not in (None, body.choices):
            raise invalid("best_of other than n cannot be honoured", "best_of")
        if body.suffix:
            _check_gap(body)
    return count


def _stops(body: Decoding) -> list[str]:
    return [body.stop] if isinstance(body.stop, str) else body.stop or []


def _check_gap(body: CompletionRequest) -> None:
    if body.max_tokens is None:
        raise invalid("suffix needs max_tokens: how many positions to fill in", "max_tokens")
    if body.gen_length not in (None, body.max_tokens):
        raise invalid("with a suffix, gen_length is max_tokens", "gen_length")
    for name in ("stop", "early_stop"):
        if getattr(body, name) not in (None, [], False):
            raise invalid(f"with a suffix every position is filled in; {name} means nothing", name)


class Planner:
    """Makes the engine's requests from a client's; use it on one thread at a time.

    Encoding is not safe on several threads at once.
    """

    def __init__(self, engine: Engine, settings: ServerSettings) -> None:
        self._engine, self._settings = engine, settings
        self._room = engine.network.config.max_position_embeddings
        self._numbers = itertools.count()

    def plan(self, body: Decoding) -> list[tuple[Request, Make]]:
        """The sequences of a request, all choices of the first prompt first, each with its maker.

        Raises ``ApiError`` for whatever the engine could not honour.
        """
        field, prompts = prompts_of(body)
        self._check_bounds(body)
        suffix = self._suffix(body)
        choices = body.choices if isinstance(body, Sampled) else 1
        planned: list[tuple[Request, Make]] = []
        for prompt in prompts:
            with _blaming(field):
                ids = self._engine.tokenizer.encode(prompt).tolist()
            shared = self._config(body, field, len(ids) + len(suffix))
            self._check_positions(len(ids) + len(suffix) + shared.gen_length)
            for config in _seeded(shared, body.seed, choices):
                make = partial(self._make, body, next(self._numbers), ids, config, suffix)
                with _blaming(field):
                    planned.append((make(), make))
        return planned

    def _make(
        self,
        body: Decoding,
        number: int,
        ids: list[int],
        config: GenerationConfig,
        suffix: list[int],
    ) -> Request:
        request = self._engine.request(number, ids, config, suffix)
        request.sampler.top = body.top if isinstance(body, Sampled) else None
        request.stopping.max_steps = body.diffusion_max_steps
        return request

    def _suffix(self, body: Decoding) -> list[int]:
        text = body.suffix if isinstance(body, CompletionRequest) else None
        if not text:
            return []
        with _blaming("suffix"):
            ids: list[int] = self._engine.tokenizer.encode_rest(text).tolist()
        return ids

    def _config(self, body: Decoding, field: str, taken: int) -> GenerationConfig:
        """The options of a request whose prompt and suffix take ``taken`` positions.

        Without ``gen_length`` the generated region is as long as the server's default or the limit
        of tokens, whichever is more. The default shrinks to the room that the model has left.
        """
        limit = body.limit if isinstance(body, Sampled) else body.max_tokens
        options = body.options()
        if "gen_length" not in options:
            default = min(self._settings.defaults.gen_length, self._room - taken)
            gap = isinstance(body, CompletionRequest) and bool(body.suffix)
            options["gen_length"] = limit if gap else max(default, limit or 1)
        if taken + options["gen_length"] > self._room:
            raise invalid(
                f"the prompt has {taken} tokens and the answer up to {options['gen_length']}; "
                f"this model has {self._room} positions",
                field,
                "context_length_exceeded",
            )
        if limit is not None:
            options["max_new_tokens"] = limit
        with _blaming(field):
            config = self._settings.defaults.merge(**options)
        self._check_policy(config.policy)
        return config

    def _check_bounds(self, body: Decoding) -> None:
        """Refuse whole numbers that no canvas or vocabulary of this model could need."""
        limits = ("max_tokens", "max_completion_tokens")
        for name in ("gen_length", "block_length", "window", "tokens_per_step", "steps", *limits):
            if (getattr(body, name, None) or 0) > self._room:
                raise invalid(f"{name} must be at most {self._room}, the model's positions", name)
        vocabulary = self._engine.network.config.vocab_size
        if (body.top_k or 0) > vocabulary:
            raise invalid(f"top_k must be at most {vocabulary}, the vocabulary", "top_k")

    def _check_positions(self, length: int) -> None:
        if length > self._settings.max_positions:
            raise invalid(
                f"a canvas of {length} positions; this server holds {self._settings.max_positions}",
                "gen_length",
            )

    def _check_policy(self, spec: str) -> None:
        """Refuse a policy that is unknown, or with numbers that would overflow where squared."""
        try:
            policy = make_policy(resolve_spec(spec, self._engine.calibrated))
        except OptionError as error:
            raise invalid(str(error), "policy") from error
        for name, number in vars(policy).items():
            plain = isinstance(number, (int, float)) and f"{name}=" in spec
            if plain and number and not 1e-6 <= abs(number) <= 1e9:
                raise invalid(f"{spec}: {name} must be 0, or from 1e-6 to 1e9 in size", "policy")


def _seeded(config: GenerationConfig, seed: int | None, choices: int) -> list[GenerationConfig]:
    """A config for each choice, with ``seed``, ``seed + 1`` and so on.

    Without a ``seed``, requests that sample start from a random one, so that asking again gives
    another answer.
    """
    first = config.seed if seed is None else seed
    if seed is None and (config.temperature or config.alg_temp):
        first = secrets.randbelow(2**62)
    if first + choices > 2**63:
        raise invalid("seed leaves no room for the choices' own", "seed")
    return [replace(config, seed=first + i) for i in range(choices)]


@contextmanager
def _blaming(field: str) -> Iterator[None]:
    """Turn the engine's refusals into ``ApiError`` with the field at fault.

    A ``PromptError`` is the fault of ``field``, an ``OptionError`` that of the option which its
    message names first.
    """
    try:
        yield
    except PromptError as error:
        raise invalid(str(error), field) from error
    except OptionError as error:
        raise invalid(str(error), _named(str(error), OPTIONS)) from error


def _named(message: str, names: Sequence[str]) -> str | None:
    places = [(match.start(), n) for n in names if (match := re.search(rf"\b{n}\b", message))]
    return min(places)[1] if places else None
