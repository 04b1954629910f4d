"""Prompts of an evaluation as token ids: text, text that a chat template made, and pairs of context
and continuation.
"""

from __future__ import annotations

from entropycache.errors import PromptError
from entropycache.io.tokenizer import Tokenizer


class Templated(str):
    """Tokenizer whose special tokens are in it already, as a chat template leaves it."""


def template(text: Tokenizer, chat: list[dict[str, str]], add_generation_prompt: bool) -> Templated:
    """A chat as text; without ``add_generation_prompt`` its last message is left open."""
    tokenizer = text.backend
    if tokenizer is None or not tokenizer.chat_template:
        raise PromptError("this model has no chat template; evaluate it without one")
    return Templated(
        tokenizer.apply_chat_template(
            chat,
            tokenize=False,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=not add_generation_prompt,
        )
    )


def tokens(text: Tokenizer, prompt: str) -> list[int]:
    """Ids of a prompt; the tokenizer adds its special tokens unless they are there."""
    if text.backend is None or not isinstance(prompt, Templated):
        return [int(i) for i in text.encode(prompt)]
    return [int(i) for i in text.encode_rest(str(prompt))]


def pair(text: Tokenizer, context: str, continuation: str) -> tuple[list[int], list[int]]:
    """Ids of a context and of its continuation, tokenized as one text. White space at the end of
    the context belongs to the continuation, except behind a chat template.
    """
    templated = isinstance(context, Templated)
    bare = context if templated else context.rstrip()
    whole = str(context) + continuation
    if not bare:
        return [], tokens(text, Templated(whole))
    prefix = tokens(text, bare)
    return prefix, tokens(text, Templated(whole) if templated else whole)[len(prefix) :]
