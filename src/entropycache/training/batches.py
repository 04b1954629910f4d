"""From examples to batches: tokens, tails of end tokens, sequences of like length together."""

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
"""With fixed shapes the warm start asks for nothing before it: chat prompts are about as long."""
ROUND = 8
"""Other batches are as long as their longest example, rounded up to a multiple of this."""


@dataclass(frozen=True)
class Encoded:
    """Token ids of a chat and its tail, and where its answers lie: begin and end of each, the tail
    belonging to the last.
    """

    ids: list[int]
    answers: tuple[tuple[int, int], ...]


def encode(tokenizer: PreTrainedTokenizerBase, example: Example) -> Encoded | None:
    """Tokens of one example with its tail of end tokens; ``None`` when it is longer than any
    batch.

    Prompt and last answer are tokenized apart, as they are when a model decodes; the answers of
    worked examples stand within the prompt and are found there by their characters.
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
        begin = text.index(content, at)
        at = begin + len(content)
        if turn % 2:
            inside = [begin <= a < b <= at for a, b in prompt["offset_mapping"]]
            first = inside.index(True)
            spans.append((first, first + sum(inside)))
    spans.append((len(prompt["input_ids"]), len(ids)))
    return Encoded(ids, tuple(spans)) if len(ids) <= LENGTHS[-1] else None


@dataclass(frozen=True)
class Group:
    """Examples that become one batch, its length, and the first mask of the warm start where the
    shape is fixed.
    """

    members: list[Encoded]
    length: int
    first: int | None = None


Cut = Callable[[Iterable[Encoded], int], Iterator[Group]]
"""Examples and a number of rows, into groups of about as many once both masks are counted."""


def batches(
    examples: Iterable[Encoded], tokens: int, rng: random.Random, end_id: int, cut: Cut
) -> Iterator[Batch]:
    """Batches of one length each, of about ``tokens`` rows once both complementary masks are
    counted, in random order. Shorter examples are filled with end tokens, which belong to the
    answer: no padding is ever masked out.
    """
    made = list(cut(examples, tokens))
    rng.shuffle(made)
    for group in made:
        ids = torch.full((len(group.members), group.length), end_id)
        answers = torch.zeros_like(ids)
        number = count(1)
        for row, answer, member in zip(ids, answers, group.members, strict=True):
            row[: len(member.ids)] = torch.tensor(member.ids)
            for begin, end in member.answers[:-1]:
                answer[begin:end] = next(number)
            answer[member.answers[-1][0] :] = next(number)
        yield Batch(ids, answers, group.first)


def fixed_shapes(examples: Iterable[Encoded], tokens: int) -> Iterator[Group]:
    """One shape for each of ``LENGTHS``, as a compiled network wants; what does not fill a batch is
    left out.
    """

    def bucket(example: Encoded) -> int:
        return next(n for n in LENGTHS if n >= len(example.ids))

    for length, found in groupby(sorted(examples, key=bucket), bucket):
        members, size = list(found), max(1, tokens // (2 * length))
        for i in range(0, len(members) - size + 1, size):
            yield Group(members[i : i + size], length, min(SHORTEST_PROMPT, length // 2))


def close_lengths(examples: Iterable[Encoded], tokens: int) -> Iterator[Group]:
    """Neighbours in length and place of the answers together, every example used."""

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
    """So many batches at a time; the last ones may be fewer."""
    while step := tuple(islice(single, parts)):
        yield step
