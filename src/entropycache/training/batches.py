"""From examples to batches: tokens, tails of end tokens, buckets by length."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedTokenizerBase

from entropycache.training.corpus import Example
from entropycache.training.objective import Batch

LENGTHS = (64, 96, 128, 192, 320, 640, 1024, 2048)
"""Bucket lengths: the rest of a bucket is end tokens that belong to the answer, so no padding is
ever masked out.
"""


@dataclass(frozen=True)
class Encoded:
    """Token ids of prompt, answer and tail, and where the answer begins."""

    ids: list[int]
    start: int


def encode(tokenizer: PreTrainedTokenizerBase, example: Example) -> Encoded | None:
    """Tokens of one example, filled with end tokens to a bucket's length; ``None`` when it is
    longer than any bucket.
    """
    roles = ("user", "assistant")
    chat = [{"role": roles[i % 2], "content": text} for i, text in enumerate(example.turns[:-1])]
    text = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    prompt = tokenizer.encode(text, add_special_tokens=False)
    answer = tokenizer.encode(example.turns[-1], add_special_tokens=False)
    wanted = len(prompt) + len(answer) + example.tail
    length = next((n for n in LENGTHS if n >= wanted), None)
    if length is None:
        return None
    tail = [tokenizer.eos_token_id] * (length - len(prompt) - len(answer))
    return Encoded(prompt + answer + tail, len(prompt))


def batches(examples: Iterable[Encoded], tokens: int, rng: random.Random) -> Iterator[Batch]:
    """Batches of one length each, about ``tokens`` tokens once both complementary masks are
    counted, in random order.

    What does not fill a batch is left out, so that every batch of a length has one shape.
    """
    buckets: dict[int, list[Encoded]] = {}
    for example in examples:
        buckets.setdefault(len(example.ids), []).append(example)
    made: list[Sequence[Encoded]] = []
    for length, members in buckets.items():
        size = max(1, tokens // (2 * length))
        made += [members[i : i + size] for i in range(0, len(members) - size + 1, size)]
    rng.shuffle(made)
    for batch in made:
        ids = torch.tensor([member.ids for member in batch])
        yield Batch(ids, torch.tensor([member.start for member in batch]))
