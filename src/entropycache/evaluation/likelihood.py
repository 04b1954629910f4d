"""Monte-Carlo estimates of the log-likelihood of a target after a prefix.

They follow the evaluation code of LLaDA's and of Dream's authors. A draw masks some tokens of the
target and none of the prefix. One pass over prefix and target gives log p of the masked tokens;
their sum is divided by the share that was masked. The mean over many draws estimates a lower bound
of the log-likelihood.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from entropycache.engine.engine import Engine
from entropycache.errors import NonFiniteLogitsError, OptionError, PromptError
from entropycache.models.full_pass import hidden_states

_ROWS = 256
"""Rows of logits held at a time: all of them would take vocabulary times target length floats."""


@dataclass(frozen=True)
class Draws:
    """The draws of one estimate.

    ``masks`` ``(draws, target length)`` are true where a token is masked. ``ratios`` ``(draws,)``
    divide each draw's sum of log p.
    """

    masks: Tensor
    ratios: Tensor


def llada_draws(length: int, count: int, generator: torch.Generator) -> Draws:
    """LLaDA's draws, as ``eval_llada.py`` of its authors makes them for one batch of ``count``.

    The numbers of masked tokens are spread evenly over 1 … ``length`` from a random first one, with
    halves rounded to even. The places of the masks are random.
    """
    first = int(torch.randint(1, length + 1, (), generator=generator))
    step = length / count
    spread = torch.linspace(first, first + (count - 1) * step, count, dtype=torch.float64)
    numbers = (spread.round().long() - 1) % length + 1
    ranks = torch.rand((count, length), generator=generator).argsort(dim=1).argsort(dim=1)
    return Draws(ranks < numbers[:, None], numbers / length)


def dream_draws(length: int, count: int, generator: torch.Generator) -> Draws:
    """Dream's draws, as ``eval.py`` of its authors makes them for one batch of ``count``.

    The ratios are spread evenly over (0.001, 1] from a random first one. Each token is masked with
    the probability of its draw's ratio.
    """
    ratios = (torch.rand((), generator=generator) + torch.arange(count) / count) % 1
    ratios = 0.999 * ratios + 0.001
    masks = torch.rand((count, length), generator=generator) < ratios[:, None]
    return Draws(masks, ratios)


@dataclass(frozen=True)
class Estimator:
    """The estimate as a family's authors make it.

    ``draws`` makes the draws from a target's length, their number and a generator. If ``framed``,
    the text stands between a start token and an end token, which are never masked.
    """

    draws: Callable[[int, int, torch.Generator], Draws]
    framed: bool


ESTIMATORS = {"llada": Estimator(llada_draws, False), "Dream": Estimator(dream_draws, True)}


def estimator(engine: Engine) -> Estimator:
    """The estimator of an engine's model family. Raises ``OptionError`` if it has none."""
    family = engine.family.model_type
    if family not in ESTIMATORS:
        raise OptionError(f"there is no likelihood estimate for the model family {family}")
    return ESTIMATORS[family]


def framed(engine: Engine, prefix: list[int], target: list[int]) -> tuple[list[int], list[int]]:
    """The prefix and the suffix of ``target``, with the tokens that the family's authors add.

    A framed family gets a start token in front, unless the prefix has it, and an end token behind.
    """
    tokenizer = engine.tokenizer.backend
    if tokenizer is None or not estimator(engine).framed:
        return prefix, []
    start, end = tokenizer.bos_token_id, tokenizer.eos_token_id
    missing = start is not None and prefix[:1] != [start]
    return ([start] if missing else []) + prefix, [] if end is None else [end]


@torch.inference_mode()
def log_likelihood(
    engine: Engine, prefix: list[int], target: list[int], count: int, seed: int, batch_size: int
) -> tuple[float, int]:
    """The estimated log-likelihood of ``target`` in nats, from ``count`` draws, and its passes.

    Draws that mask the same tokens are computed once: a target of one token takes one pass. An
    empty target has log-likelihood 0. The result depends on ``seed``, not on ``batch_size``, but
    for rounding.

    Raises ``PromptError`` if prefix and target are longer than the model's positions,
    ``NonFiniteLogitsError`` for NaN or infinite logits, and ``OptionError`` for a family without
    an estimate.
    """
    prefix, suffix = framed(engine, prefix, target)
    longest = engine.network.config.max_position_embeddings
    if (length := len(prefix) + len(target) + len(suffix)) > longest:
        raise PromptError(
            f"context and continuation make {length} tokens; this model has {longest}"
        )
    if not target:
        return 0.0, 0
    generator = torch.Generator().manual_seed(seed % 2**63)
    drawn = estimator(engine).draws(len(target), count, generator)
    distinct, which = np.unique(drawn.masks.numpy(), axis=0, return_inverse=True)
    weights = np.bincount(which.ravel(), 1 / drawn.ratios.double().numpy())
    useful = distinct.any(axis=1)  # Dream may draw no mask at all, whose sum is 0: no pass needed
    masks, weights = torch.from_numpy(distinct[useful]), weights[useful]
    ids = torch.tensor(prefix + target + suffix)
    total = 0.0
    for n in range(0, len(masks), batch_size):
        sums = _masked_sums(engine, ids, len(prefix), masks[n : n + batch_size])
        total += float(sums.numpy() @ weights[n : n + batch_size])
    if not np.isfinite(total):
        raise NonFiniteLogitsError("the network returned NaN or infinite logits for a likelihood")
    return total / count, len(masks)


def _masked_sums(engine: Engine, ids: Tensor, start: int, masks: Tensor) -> Tensor:
    """Sums of log p in nats over the masked tokens, ``(n,)``, for ``masks`` ``(n, target length)``.

    ``ids`` ``(length,)`` is the whole text; the target starts at position ``start``.
    """
    device = engine.network.embedding.device
    inputs = ids.repeat(len(masks), 1)
    inputs[:, start : start + masks.shape[1]][masks] = engine.tokenizer.mask_id
    hidden = hidden_states(
        engine.network, inputs.to(device), torch.arange(len(ids), device=device), None
    )
    draw, place = masks.nonzero(as_tuple=True)
    positions = start + place
    sources = torch.from_numpy(engine.family.prediction_rows(positions.numpy()))
    rows = hidden[(draw * len(ids) + sources).to(device)]
    targets = ids[positions].to(device)
    # bfloat16 keeps 8 significant bits, too few for a softmax over a large vocabulary.
    precise = torch.promote_types(hidden.dtype, torch.float32)
    logprobs = []
    for n in range(0, len(rows), _ROWS):
        scores = engine.network.logits(rows[n : n + _ROWS]).log_softmax(-1, precise)
        logprobs.append(scores.gather(1, targets[n : n + _ROWS, None])[:, 0])
    sums = torch.zeros(len(masks), dtype=torch.float64)
    return sums.index_add_(0, draw, torch.cat(logprobs).double().cpu())


def is_greedy(engine: Engine, prefix: list[int], target: list[int]) -> bool:
    """True if plain decoding of ``target``'s length after ``prefix`` gives ``target``.

    Plain decoding commits the surest token of the whole target at each step, without a cache. It is
    ended at the first token that differs.
    """
    prefix, _ = framed(engine, prefix, target)
    steps = engine.stream(
        prefix,
        policy="none",
        gen_length=len(target),
        window=len(target),
        tokens_per_step=1,
        early_stop=False,
    )
    for frame in steps:
        commit = frame.step.commit.positions
        if any(frame.canvas[p] != target[p - frame.start] for p in commit):
            return False
    return True
