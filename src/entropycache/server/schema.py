"""The bodies of requests: OpenAI's fields that can be honoured, and the engine's own options.

An unknown field is an error. So is a known field with a value that cannot be honoured: no request
is accepted in part. The module knows the shape of requests, not models.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from entropycache.config.generation import GenerationConfig
from entropycache.server.decoding_options import REQUEST_NAMES, options_model

MAX_TOP_LOGPROBS = 20
OPTIONS = tuple(item.name for item in dataclasses.fields(GenerationConfig))


def _refuse_unless(accepted: tuple[Any, ...]) -> AfterValidator:
    def check(value: Any) -> Any:
        # By type as well, because True == 1 and False == 0 in Python.
        if not any(type(value) is type(a) and value == a for a in accepted):
            shown = ", ".join(json.dumps(a) for a in accepted if type(a) is not float)
            raise ValueError(f"this cannot be honoured here; leave it out, or give {shown}")
        return value

    return AfterValidator(check)


Never = Annotated[Any, _refuse_unless((None, False, [], {}))]
Zero = Annotated[Any, _refuse_unless((None, 0, 0.0))]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class _Addressed(_Strict):
    """The fields of every decoding request that say who is asked, and by whom."""

    model: str | None = Field(None, description="the served model, or nothing")
    user: str | None = Field(None, description="a name for the client's own use; changes nothing")


# ``Any``, as a class that is made at run time is no type to a checker.
_Options: Any = options_model(GenerationConfig, _Addressed)


class Decoding(_Options):  # type: ignore[misc]  # the base is ``Any``, see above
    """The decoding options of a request; the server's defaults stand for those left out."""

    diffusion_max_steps: int | None = Field(
        None, ge=1, description="end after this many steps; the answer is what is final by then"
    )

    def options(self) -> dict[str, Any]:
        """The options that were given, by their names in ``GenerationConfig``."""
        given = {name: getattr(self, REQUEST_NAMES.get(name, name)) for name in OPTIONS}
        return {name: value for name, value in given.items() if value is not None}


class StreamOptions(_Strict):
    """Options of a stream: the chunks it carries beside the answer."""

    include_usage: bool | None = Field(None, description="a last chunk with token counts")
    include_obfuscation: Never = None


class Sampled(Decoding):
    """The fields that chat and completions have in common."""

    n: Annotated[int, Field(ge=1)] | None = Field(None, description="choices for each prompt")
    stream: bool | None = Field(None, description="send text as soon as it is final")
    stream_options: StreamOptions | None = None
    frequency_penalty: Zero = None
    presence_penalty: Zero = None
    logit_bias: Never = None

    @property
    def choices(self) -> int:
        """The number of choices for each prompt, 1 where none was given."""
        return self.n or 1

    @property
    def limit(self) -> int | None:
        """The most tokens an answer may have, or ``None`` if no limit was given."""
        limit: int | None = self.max_tokens
        return limit

    @property
    def top(self) -> int | None:
        """The number of most probable tokens to list beside each token of the answer.

        ``None`` asks for no log-probabilities at all, 0 for those of the answer's tokens alone.
        """
        raise NotImplementedError


class TextPart(_Strict):
    """A piece of a message's text."""

    type: Literal["text"]
    text: str


class Message(_Strict):
    """One message of a chat. ``developer`` is another word for ``system``."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | Annotated[list[TextPart], Field(min_length=1)]
    name: Never = None
    refusal: Never = None
    audio: Never = None
    annotations: Never = None
    tool_calls: Never = None
    function_call: Never = None

    def plain(self) -> dict[str, str]:
        """The message in the engine's form: role and text, with its parts joined."""
        parts = self.content if isinstance(self.content, list) else []
        text = "".join(part.text for part in parts) if parts else self.content
        assert isinstance(text, str)
        return {"role": "system" if self.role == "developer" else self.role, "content": text}


Messages = Annotated[list[Message], Field(min_length=1)]
Prompt = str | list[str] | list[int] | list[list[int]]


class ChatRequest(Sampled):
    """``POST /v1/chat/completions``."""

    messages: Messages
    max_completion_tokens: int | None = Field(
        None, ge=1, description="the newer name of max_tokens"
    )
    logprobs: bool | None = Field(None, description="log-probabilities of the answer's tokens")
    top_logprobs: int | None = Field(None, ge=0, le=MAX_TOP_LOGPROBS)
    tools: Never = None
    tool_choice: Annotated[Any, _refuse_unless((None, "none"))] = None
    parallel_tool_calls: Never = None
    functions: Never = None
    function_call: Annotated[Any, _refuse_unless((None, "none"))] = None
    response_format: Annotated[Any, _refuse_unless((None, {"type": "text"}))] = None
    store: Never = None
    metadata: Never = None

    @property
    def limit(self) -> int | None:
        """``max_completion_tokens``, or else ``max_tokens``."""
        return self.max_completion_tokens or self.max_tokens

    @property
    def top(self) -> int | None:
        """``top_logprobs`` if ``logprobs`` is set, else ``None``."""
        return (self.top_logprobs or 0) if self.logprobs else None


class CompletionRequest(Sampled):
    """``POST /v1/completions``: text, token ids, or a list of either.

    With ``suffix`` exactly ``max_tokens`` positions between prompt and suffix are filled in.
    """

    prompt: Prompt = Field(description="text or token ids, one prompt or many")
    suffix: str | None = Field(None, description="what stands behind the answer; needs max_tokens")
    logprobs: int | None = Field(None, ge=0, le=MAX_TOP_LOGPROBS)
    echo: Never = None
    best_of: Annotated[int, Field(ge=1)] | None = None

    @property
    def top(self) -> int | None:
        """``logprobs`` itself, which is a number here."""
        return self.logprobs


class CanvasRequest(Decoding):
    """``POST /v1/canvas``: one prompt, or one chat."""

    prompt: str | list[int] | None = Field(None, description="text or token ids")
    messages: Messages | None = Field(None, description="a chat, in place of a prompt")


class TokenizeRequest(_Strict):
    """``POST /tokenize``: a text or a chat."""

    model: str | None = None
    prompt: str | None = None
    messages: Messages | None = None


class DetokenizeRequest(_Strict):
    """``POST /detokenize``: token ids."""

    model: str | None = None
    tokens: list[int]
