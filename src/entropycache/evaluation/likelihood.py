"""Monte-Carlo estimates of the log-likelihood of a target after a prefix, as the authors of LLaDA
and of Dream make them.

Both mask tokens of the target alone, sum log p of the masked ones from one pass over prefix and
target, and divide by the share masked; the mean over many draws estimates a lower bound.
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
"""Rows of logits held at a time."""


@dataclass(frozen=True)
class Draws:
    """``masks`` ``(draws, target length)``, and what a draw's sum of log p is divided by, ``(draws,
    )``.
    """

    masks: Tensor
    ratios: Tensor


def llada_draws(length: int, count: int, generator: torch.Generator) -> Draws:
    """LLaDA's: numbers of masked tokens spread evenly over 1 … length from a random first one,
    halves rounded to even, the places drawn (``eval_llada.py``, for one batch of ``count``).
    """
    first = int(torch.randint(1, length + 1, (), generator=generator))
    step = length / count
    spread = torch.linspace(first, first + (count - 1) * step, count, dtype=torch.float64)
    numbers = (spread.round().long() - 1) % length + 1
    ranks = torch.rand((count, length), generator=generator).argsort(dim=1).argsort(dim=1)
    return Draws(ranks < numbers[:, None], numbers / length)


def dream_draws(length: int, count: int, generator: torch.Generator) -> Draws:
    """Dream's: ratios spread evenly over (0.001, 1] from a random first one, each token masked with
    that probability (``eval.py`` of its authors, for one batch of ``count``).
    """
    ratios = (torch.rand((), generator=generator) + torch.arange(count) / count) % 1
    ratios = 0.999 * ratios + 0.001
    masks = torch.rand((count, length), generator=generator) < ratios[:, None]
    return Draws(masks, ratios)


@dataclass(frozen=True)
class Estimator:
    """How a family's authors estimate: the draws, and whether begin and end tokens, never masked,
    stand around.
    """

    draws: Callable[[int, int, torch.Generator], Draws]
    framed: bool


ESTIMATORS = {"llada": Estimator(llada_draws, False), "Dream": Estimator(dream_draws, True)}


def estimator(engine: Engine) -> Estimator:
    """The estimator of an engine's family."""
    family = engine.family.model_type
    if family not in ESTIMATORS:
        raise OptionError(f"there is no likelihood estimate for the model family {family}")
    return ESTIMATORS[family]


def framed(engine: Engine, prefix: list[int], target: list[int]) -> tuple[list[int], list[int]]:
    """The prefix as the family's authors begin it, and what stands behind the target."""
    tokenizer = engine.tokenizer.backend
    if tokenizer is None or not estimator(engine).framed:
        return prefix, []
    begin, end = tokenizer.bos_token_id, tokenizer.eos_token_id
    missing = begin is not None and prefix[:1] != [begin]
    return ([begin] if missing else []) + prefix, [] if end is None else [end]


@torch.inference_mode()
def log_likelihood(
    engine: Engine, prefix: list[int], target: list[int], count: int, seed: int, batch_size: int
) -> tuple[float, int]:
    """The estimate from ``count`` draws in nats, and how many passes it took.

    Draws that mask the same tokens are computed once: the target of a single token takes one pass.
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
    useful = distinct.any(axis=1)
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
    """For each of ``masks`` ``(n, target length)``, the sum of log p over the masked tokens."""
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
    precise = torch.promote_types(hidden.dtype, torch.float32)
    found = []
    for n in range(0, len(rows), _ROWS):
        scores = engine.network.logits(rows[n : n + _ROWS]).log_softmax(-1, precise)
        found.append(scores.gather(1, targets[n : n + _ROWS, None])[:, 0])
    sums = torch.zeros(len(masks), dtype=torch.float64)
    return sums.index_add_(0, draw, torch.cat(found).double().cpu())


def is_greedy(engine: Engine, prefix: list[int], target: list[int]) -> bool:
    """Whether plain decoding, the surest token of the whole target at each step, gives ``target``;
    ends at the first token that differs.
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
