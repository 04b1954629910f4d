"""Batches from examples: token ids with tails of end tokens, grouped by similar length."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count, groupby, islice

import torch
from transformers import PreTrainedTokenizerBase

from entropycache.training.corpus import Example
from entropycache.training.objective import Batch

LENGTHS = (64, 96, 128, 192, 320, 640, 1024, 2048)
"""Lengths of batches with fixed shapes; the last is the longest of any batch."""
SHORTEST_PROMPT = 32
"""Positions that hold no answer: with fixed shapes the warm start has no masks before this one.

Chat prompts are at least about as long.
"""
ROUND = 8
"""Other batches are as long as their longest example, rounded up to a multiple of this."""


@dataclass(frozen=True)
class Encoded:
    """Token ids of a chat with its tail, and the (start, end) of each answer in them.

    The last answer includes the tail.
    """

    ids: list[int]
    answers: tuple[tuple[int, int], ...]


def encode(tokenizer: PreTrainedTokenizerBase, example: Example) -> Encoded | None:
    """Token ids of one example with its tail of end tokens, or ``None`` if it is too long.

    Prompt and last answer are tokenized separately, as they are when a model decodes. The answers
    of worked examples stand within the prompt and are found there by their characters.
    """
    roles = ("user", "assistant")
    chat = [{"role": roles[i % 2], "content": text} for i, text in enumerate(example.turns[:-1])]
    text = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    assert isinstance(text, str)
    prompt = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    answer = tokenizer.encode(example.turns[-1], add_special_tokens=False)
    ids = prompt["input_ids"] + answer + [tokenizer.eos_token_id] * example.tail
    spans, at = [], 0
    for turn, content in enumerate(example.turns[:-1]):
        start = text.index(content, at)
        at = start + len(content)
        if turn % 2:
            inside = [start <= a < b <= at for a, b in prompt["offset_mapping"]]
            first = inside.index(True)
            spans.append((first, first + sum(inside)))
    spans.append((len(prompt["input_ids"]), len(ids)))
    return Encoded(ids, tuple(spans)) if len(ids) <= LENGTHS[-1] else None


@dataclass(frozen=True)
class Group:
    """Examples that become one batch of ``length`` tokens.

    ``first`` is the position of the warm start's first mask if the shape is fixed, else ``None``.
    """

    members: list[Encoded]
    length: int
    first: int | None = None


Cut = Callable[[Iterable[Encoded], int], Iterator[Group]]
"""Cuts examples into groups of about a number of rows, both complementary masks counted."""


def batches(
    examples: Iterable[Encoded], tokens: int, rng: random.Random, end_id: int, cut: Cut
) -> Iterator[Batch]:
    """Yield batches in random order, each of one length and of about ``tokens`` rows.

    Rows count both complementary masks. Shorter examples are filled with end tokens, which belong
    to the answer: no padding is ever masked out. Tensors are ``(sequences, length)``.
    """
    groups = list(cut(examples, tokens))
    rng.shuffle(groups)
    for group in groups:
        ids = torch.full((len(group.members), group.length), end_id)
        answers = torch.zeros_like(ids)
        number = count(1)
        for row, answer, member in zip(ids, answers, group.members, strict=True):
            row[: len(member.ids)] = torch.tensor(member.ids)
            for start, end in member.answers[:-1]:
                answer[start:end] = next(number)
            answer[member.answers[-1][0] :] = next(number)
        yield Batch(ids, answers, group.first)


def fixed_shapes(examples: Iterable[Encoded], tokens: int) -> Iterator[Group]:
    """Yield groups of one shape for each of ``LENGTHS``, for a network compiled once for each.

    Examples that do not fill a batch are left out.
    """

    def bucket(example: Encoded) -> int:
        return next(n for n in LENGTHS if n >= len(example.ids))

    for length, fitting in groupby(sorted(examples, key=bucket), bucket):
        members, size = list(fitting), max(1, tokens // (2 * length))
        for i in range(0, len(members) - size + 1, size):
            yield Group(members[i : i + size], length, min(SHORTEST_PROMPT, length // 2))


def close_lengths(examples: Iterable[Encoded], tokens: int) -> Iterator[Group]:
    """Yield groups of examples of similar length and places of answers; every example is used."""

    def rounded(example: Encoded) -> int:
        return -(-len(example.ids) // ROUND) * ROUND

    members: list[Encoded] = []
    for example in sorted(examples, key=lambda e: (rounded(e), e.answers)):
        if members and 2 * rounded(example) * (len(members) + 1) > tokens:
            yield Group(members, rounded(members[-1]))
            members = []
        members = [*members, example]
    if members:
        yield Group(members, rounded(members[-1]))


def together(single: Iterator[Batch], parts: int) -> Iterator[tuple[Batch, ...]]:
    """Yield ``parts`` batches at a time; the last time there may be fewer."""
    while step := tuple(islice(single, parts)):
        yield step
