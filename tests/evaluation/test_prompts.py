"""Prompts: a context and its continuation are tokenized as one text."""

from __future__ import annotations

from entropycache.evaluation import EntropyCacheLM
from entropycache.evaluation.prompts import Templated, pair, tokens


def test_context_and_continuation_are_tokenized_as_one(tiny):
    text = tiny.tokenizer
    whole = tokens(text, "12 + 34 = 46")
    prefix, target = pair(text, "12 + 34 = ", "46")
    assert prefix + target == whole and prefix == tokens(text, "12 + 34 =")
    assert pair(text, "", "46") == ([], tokens(text, Templated("46")))
    chat = EntropyCacheLM(tiny).apply_chat_template([{"role": "user", "content": "2 + 2"}])
    prefix, target = pair(text, chat, "4")
    assert prefix == text.encode([{"role": "user", "content": "2 + 2"}]).tolist()
    assert text.backend.decode(target) == "4"
