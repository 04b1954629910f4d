"""Between text and token ids: tokenizer, chat template, mask and end tokens.

It knows a tokenizer and the names of its special tokens, nothing of models, policies or strategies.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import transformers
from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from entropycache.core.steps import Positions
from entropycache.errors import CheckpointError, PromptError

Chat = Sequence[Mapping[str, str]]
"""Messages with ``role`` and ``content``."""

Prompt = str | Sequence[int] | Chat
"""Text, token ids, or a chat."""


@dataclass(frozen=True)
class SpecialTokens:
    """Names of a model family's special tokens: the ``mask``, used where a config does not give its
    id, and every token that ``ends`` an answer. ``tokenizer_class`` reads a folder that has
    ``vocab.json`` and ``merges.txt`` in place of ``tokenizer.json``.
    """

    mask: str
    ends: tuple[str, ...]
    tokenizer_class: str = "PreTrainedTokenizerFast"


def load_backend(folder: Path, special: SpecialTokens) -> PreTrainedTokenizerBase | None:
    """The folder's tokenizer, without running code from it; ``None`` where it has no tokenizer
    files.
    """
    if (folder / "tokenizer.json").exists():
        kind = transformers.PreTrainedTokenizerFast
    elif (folder / "vocab.json").exists():
        kind = getattr(transformers, special.tokenizer_class)
    else:
        return None
    # Published configs name tokenizer classes of their own remote code; what is read here does not
    # need them.
    log = logging.getLogger("transformers.tokenization_utils_base")
    level, log.level = log.level, logging.ERROR
    try:
        loaded: PreTrainedTokenizerBase = kind.from_pretrained(str(folder))
        return loaded
    except Exception as error:  # whatever the library makes of a damaged file
        raise CheckpointError(f"{folder}: its tokenizer cannot be read: {error}") from error
    finally:
        log.level = level


def make_tokenizer(
    backend: PreTrainedTokenizerBase | None,
    configs: Sequence[Mapping[str, Any]],
    special: SpecialTokens,
    vocab_size: int,
) -> Tokenizer:
    """The tokenizer of a model, with its mask and its end tokens.

    ``configs`` are its ``config.json`` and, where there is one, its ``generation_config.json``. The
    mask is the one that they give, else the family's by name. End tokens are all that they give,
    the tokenizer's own, and the family's by name. Raises ``CheckpointError`` for an id that is no
    token of the model.
    """
    named = dict(backend.get_vocab()) if backend else {}
    masks = [config.get("mask_token_id") for config in configs] + [named.get(special.mask)]
    mask_id = next((mask for mask in masks if mask is not None), None)
    if mask_id is None:
        raise CheckpointError(
            f"no mask token: the config has no mask_token_id and no tokenizer knows {special.mask}"
        )
    ends = [named[token] for token in special.ends if token in named]
    ends += [] if backend is None or backend.eos_token_id is None else [backend.eos_token_id]
    for config in configs:
        given = config.get("eos_token_id")
        ends += given if isinstance(given, list) else [] if given is None else [given]
    mask = _token_id("mask_token_id", mask_id, vocab_size)
    checked = frozenset(_token_id("eos_token_id", end, vocab_size) for end in ends)
    if mask in checked:
        raise CheckpointError(f"mask_token_id and eos_token_id are both {mask}")
    return Tokenizer(backend, mask, checked, vocab_size)


def _token_id(name: str, value: Any, vocab_size: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise CheckpointError(f"{name} must be a whole number, not {value!r}")
    if not 0 <= value < vocab_size:
        raise CheckpointError(f"{name} is {value}, outside the vocabulary of {vocab_size} entries")
    return value


def is_many(prompts: object) -> bool:
    """A list of prompts, rather than one that is itself a list of token ids or messages."""
    if not isinstance(prompts, (list, tuple)):
        return False
    return all(not isinstance(p, (int, np.integer, Mapping)) for p in prompts) and len(prompts) > 0


_PROMPTS = "a prompt is text, a list of token ids, or a list of messages with role and content"


class Tokenizer:
    """A tokenizer (or none), and the ids that mean masked and end."""

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase | None,
        mask_id: int,
        end_ids: frozenset[int],
        vocab_size: int,
    ) -> None:
        self.backend = tokenizer
        self.mask_id = mask_id
        self.end_ids = end_ids
        self.vocab_size = vocab_size
        self.mask_text = str(tokenizer.convert_ids_to_tokens(mask_id)) if tokenizer else ""

    def endless(self) -> Tokenizer:
        """The same text side for what no token ends: masks with something behind them."""
        return Tokenizer(self.backend, self.mask_id, frozenset(), self.vocab_size)

    def encode(self, prompt: str | Chat | Sequence[int]) -> Positions:
        """Token ids of a prompt: text as it is, a chat through its template, ids checked.

        A prompt that holds the mask token, in any form, raises ``PromptError``: it would be filled
        in. The empty text is allowed; the canvas is then masks alone (after what the tokenizer
        itself puts in front).
        """
        return self._unmasked(self.encode_canvas(self._ids(prompt)))

    def encode_rest(self, text: str) -> Positions:
        """Token ids of a text that stands behind others: a tokenizer puts nothing in front of it.
        ``PromptError`` as for ``encode``.
        """
        return self._unmasked(self.encode_canvas(self._encode(text, special=False)))

    def _unmasked(self, ids: Positions) -> Positions:
        if (ids == self.mask_id).any():
            name = f"the mask token {self.mask_text or '(id)'}, id {self.mask_id}"
            raise PromptError(
                f"the prompt contains {name}; generation masks what follows a prompt, and "
                "infill takes a prompt with masks of its own"
            )
        return ids

    def encode_masked(self, prompt: str | Chat | Sequence[int]) -> Positions:
        """Token ids of a text, or ids, whose masks are to be filled in; ``PromptError`` where there
        is none.
        """
        if isinstance(prompt, (list, tuple)) and any(isinstance(p, Mapping) for p in prompt):
            raise PromptError("infilling takes text or token ids, not a chat")
        ids = self.encode_canvas(self._ids(prompt))
        if not (ids == self.mask_id).any():
            name = f"{self.mask_text or 'its id'}, id {self.mask_id}"
            raise PromptError(f"there is nothing to fill in: no mask token ({name}) in the prompt")
        return ids

    def encode_canvas(self, ids: Sequence[int]) -> Positions:
        """Token ids as an array, masks allowed; an id outside the vocabulary raises
        ``PromptError``.
        """
        if not all(isinstance(i, (int, np.integer)) and not isinstance(i, bool) for i in ids):
            raise PromptError("token ids are whole numbers")
        wrong = [i for i in ids if not 0 <= i < self.vocab_size]
        if wrong:
            raise PromptError(
                f"token id {wrong[0]} is outside the vocabulary 0 … {self.vocab_size - 1}"
            )
        return np.array(ids, dtype=np.int64)

    def decode(self, ids: Positions) -> str:
        """Text of ``ids`` without special tokens; empty where there is no tokenizer."""
        if self.backend is None:
            return ""
        return str(self.backend.decode(ids.tolist(), skip_special_tokens=True))

    def spell(self, ids: Sequence[int]) -> str:
        """Text of ids with special tokens, as ``encode`` would read it; wrong ids raise
        ``PromptError``.
        """
        checked = self.encode_canvas(ids)
        return str(self._tokenizer().decode(checked.tolist()))

    def token(self, token_id: int) -> str:
        """One token as text, for display."""
        if self.backend is None:
            return str(token_id)
        return str(self.backend.decode([token_id]))

    def _ids(self, prompt: Any) -> Sequence[int]:
        if isinstance(prompt, str):
            return self._encode(prompt)
        if not isinstance(prompt, (list, tuple, np.ndarray)):
            raise PromptError(f"{_PROMPTS}, not {type(prompt).__name__}")
        items = list(prompt)
        if all(isinstance(item, Mapping) for item in items) and items:
            return self._chat(items)
        if all(isinstance(item, (int, np.integer)) for item in items):
            return items
        raise PromptError(_PROMPTS)

    def _encode(self, text: str, special: bool = True) -> Sequence[int]:
        try:
            return list(self._tokenizer().encode(text, add_special_tokens=special))
        except (TypeError, UnicodeError) as error:
            raise PromptError(f"the prompt is not text that can be encoded: {error}") from error

    def _chat(self, messages: Sequence[Any]) -> Sequence[int]:
        for message in messages:
            if not all(isinstance(message.get(key), str) for key in ("role", "content")):
                raise PromptError(
                    f"a chat message needs role and content, both text, not {dict(message)!r}"
                )
        tokenizer = self._tokenizer()
        if not tokenizer.chat_template:
            raise PromptError("this tokenizer has no chat template; give text or token ids")
        try:
            text = tokenizer.apply_chat_template(
                list(messages), add_generation_prompt=True, tokenize=False
            )
        except TemplateError as error:
            raise PromptError(f"the model's chat template refuses this chat: {error}") from error
        return self._encode(str(text), special=False)

    def _tokenizer(self) -> PreTrainedTokenizerBase:
        if self.backend is None:
            raise PromptError("this checkpoint has no tokenizer; give the prompt as token ids")
        return self.backend
