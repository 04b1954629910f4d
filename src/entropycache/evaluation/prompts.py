"""Prompts of an evaluation as token ids.

A prompt is plain text, text made by a chat template, or a pair of context and continuation.
"""

from __future__ import annotations

from entropycache.errors import PromptError
from entropycache.io.tokenizer import Tokenizer


class Templated(str):
    """Text that already holds the special tokens, as a chat template leaves it."""


def template(text: Tokenizer, chat: list[dict[str, str]], add_generation_prompt: bool) -> Templated:
    """A chat as text; without ``add_generation_prompt`` its last message is left open.

    Raises ``PromptError`` if the tokenizer has no chat template.
    """
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
    """Token ids of a prompt; special tokens are added unless the prompt is ``Templated``.

    Raises ``PromptError`` for a prompt that cannot be encoded.
    """
    if text.backend is None or not isinstance(prompt, Templated):
        return [int(i) for i in text.encode(prompt)]
    return [int(i) for i in text.encode_rest(str(prompt))]


def pair(text: Tokenizer, context: str, continuation: str) -> tuple[list[int], list[int]]:
    """Token ids of a context and of its continuation, tokenized as one text.

    White space at the end of the context counts to the continuation, except behind a chat template.
    Raises ``PromptError`` for a text that cannot be encoded.
    """
    templated = isinstance(context, Templated)
    # Vocabularies hold words with their leading space: "a" and " b" are tokens, "a " is seldom one.
    bare = context if templated else context.rstrip()
    whole = str(context) + continuation
    if not bare:
        return [], tokens(text, Templated(whole))
    prefix = tokens(text, bare)
    return prefix, tokens(text, Templated(whole) if templated else whole)[len(prefix) :]
