"""From logits to scores: the output head on predicted rows, chunk by chunk, and what a strategy
needs of each row.

No canvas × vocabulary tensor ever exists: a chunk holds ``CHUNK_ENTRIES`` logits at most. This
module knows rows and sampling settings, neither positions nor policies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from entropycache.config.sampling import Confidence, Sampling
from entropycache.core.steps import Logprobs, Scores

CHUNK_ENTRIES = 2**25
"""Logits held at a time: 128 MiB in float32."""


@dataclass
class Sampler:
    """The sampling settings of one request and its own stream of random numbers. ``top`` asks for
    log-probabilities: of the candidates and of so many most probable tokens; ``None`` for none.
    """

    sampling: Sampling
    top: int | None = None
    generator: torch.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.generator = torch.Generator().manual_seed(self.sampling.seed)

    @property
    def plain(self) -> bool:
        """Whether the greedy token and its probability are all that is asked for."""
        return self.sampling.confidence is Confidence.PROBABILITY and not self.sampling.reshaped

    def uniforms(self, count: int) -> Tensor:
        """``count`` numbers from U(0, 1), drawn on the host: neither device nor company in the
        batch changes them.
        """
        return torch.rand(count, generator=self.generator, dtype=torch.float64)


class Chunk:
    """Logits ``(rows, vocab_size)`` with the mask token suppressed, and their distributions at
    temperature 1.
    """

    def __init__(self, logits: Tensor, mask_id: int) -> None:
        self.logits = logits if logits.dtype == torch.float64 else logits.float()
        lowest, highest = self.logits.aminmax(dim=-1)
        self.finite = lowest.isfinite() & highest.isfinite()  # NaN is both
        # The finite minimum, not -inf: its probability is 0 as well, and 0 * minimum is 0 where 0 *
        # -inf is NaN.
        self.logits[:, mask_id] = torch.finfo(self.logits.dtype).min
        self.best, self.tokens = self.logits.max(dim=-1)
        self.probabilities = self.logits.softmax(dim=-1)
        self.peak = self.probabilities.gather(1, self.tokens[:, None]).squeeze(1)

    def release(self) -> None:
        """Let go of the large tensors; entropies cannot be asked for any more."""
        self.logits = self.probabilities = torch.empty(0, 0)

    def entropy(self, rows: Sequence[int]) -> Tensor:
        """H = logsumexp(l) - p·l in nats for some rows, from values at hand: peak = exp(best -
        logsumexp).
        """
        assert len(self.logits), "entropies are there until the next pass"
        index = torch.as_tensor(rows, device=self.peak.device, dtype=torch.int64)
        total = self.best[index].double() - self.peak[index].double().log()
        dots = _dots_by_row if self.logits.device.type == "cpu" else _dots_at_once
        mean = dots(self.probabilities, self.logits, index)
        return (total - mean.double()).clamp(min=0)

    def logprobs(self, rows: slice, tokens: Tensor, top: int) -> Tensor:
        """Log-probabilities of ``tokens`` and of the ``top`` most probable tokens, then the ids of
        the latter: ``(rows, 1 + 2 * top)`` in float64.
        """
        logits = self.logits[rows].double()
        values, ids = logits.topk(min(top, logits.shape[1]), dim=-1)
        own = logits.gather(1, tokens.long()[:, None])
        total = self.best[rows].double() - self.peak[rows].double().log()
        return torch.cat((torch.cat((own, values), dim=1) - total[:, None], ids), dim=1)

    def sampled(self, rows: slice, sampling: Sampling, uniforms: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens and confidences of some rows under a request's own settings."""
        tokens, p = self.tokens[rows], self.probabilities[rows]
        if sampling.reshaped:
            cut = truncated(self.logits[rows], sampling)
            if sampling.temperature > 0:
                tokens = draw(cut, uniforms.to(cut.device))
            p = cut if sampling.tempered else p
        if sampling.confidence is Confidence.MARGIN:
            first, second = p.topk(2, dim=-1).values.unbind(dim=-1)
            return tokens, first - second
        if sampling.confidence is Confidence.ENTROPY:
            return tokens, -torch.special.entr(p).sum(dim=-1)
        return tokens, p.gather(1, tokens[:, None]).squeeze(1)


def _dots_by_row(p: Tensor, logits: Tensor, rows: Tensor) -> Tensor:
    """p·l of some rows, a row at a time, so that no row is copied: the quick way on a CPU."""
    dots = [torch.dot(p[i], logits[i]) for i in rows.tolist()]
    return torch.stack(dots) if dots else p.new_empty(0)


def _dots_at_once(p: Tensor, logits: Tensor, rows: Tensor) -> Tensor:
    """p·l of some rows, in one kernel over all rows: the quick way on a GPU."""
    dots: Tensor = torch.linalg.vecdot(p, logits)
    return dots[rows]


def truncated(logits: Tensor, sampling: Sampling) -> Tensor:
    """softmax(logits / temperature) ``(rows, vocab_size)`` in float64, cut by top-p and top-k (both
    on the scaled distribution, the token that crosses ``top_p`` included) and normalised again. A
    temperature of 0 does not scale.
    """
    p = (logits.double() / (sampling.temperature or 1.0)).softmax(dim=-1)
    if not sampling.cuts:
        return p
    ranked, order = p.sort(dim=-1, descending=True, stable=True)
    kept = (ranked.cumsum(dim=-1) - ranked) < sampling.top_p
    if sampling.top_k:
        kept &= torch.arange(p.shape[-1], device=p.device) < sampling.top_k
    p = torch.zeros_like(p).scatter(1, order, ranked * kept)
    return p / p.sum(dim=-1, keepdim=True)


def draw(p: Tensor, uniforms: Tensor) -> Tensor:
    """One token a row, ``(rows,)``, from distributions ``(rows, vocab_size)``, by inverting the
    cumulative distribution at ``uniforms``.
    """
    cumulative = p.cumsum(dim=-1)
    wanted = uniforms[:, None] * cumulative[:, -1:]
    picked = torch.searchsorted(cumulative, wanted, right=True).squeeze(1)
    last = p.shape[-1] - 1 - (p > 0).flip(-1).int().argmax(dim=-1)
    return torch.minimum(picked, last)


def score(
    head: Callable[[Tensor], Tensor],
    hidden: Tensor,
    counts: Sequence[int],
    samplers: Sequence[Sampler],
    mask_id: int,
    vocab_size: int,
) -> tuple[list[Scores | None], Chunk | None]:
    """Scores of each request's predicted rows; ``None`` where any of its logits is NaN or infinite.

    ``hidden`` ``(rows, width)`` holds the predicted rows of all requests one after the other,
    ``counts`` how many each has. Everything comes to the host in one copy; entropies of committed
    rows alone are computed when asked for, where the logits lie on the host anyway and fit one
    chunk.
    """
    size = max(1, CHUNK_ENTRIES // vocab_size)
    lazy = len(hidden) <= size and hidden.device.type == "cpu"
    batch = _Batch(counts, samplers)
    table = torch.empty((4, len(hidden)), dtype=torch.float64, device=hidden.device)
    chunk = None
    for begin in range(0, len(hidden), size):
        chunk = Chunk(head(hidden[begin : begin + size]), mask_id)
        part = table[:, begin : begin + size]
        part[0], part[1], part[2] = chunk.tokens, chunk.peak, chunk.finite
        if not lazy:
            part[3] = chunk.entropy(range(part.shape[1]))
        batch.refine(chunk, part, begin)
    kept = chunk if lazy else None
    return batch.scores(table.cpu().numpy(), kept), kept


class _Batch:
    """The predicted rows of all requests, one after the other, and what each request asks of its
    own beyond the greedy token and its probability.
    """

    def __init__(self, counts: Sequence[int], samplers: Sequence[Sampler]) -> None:
        self._counts, self._samplers = counts, samplers
        self._uniforms = [
            s.uniforms(n) if s.sampling.temperature > 0 else torch.empty(n)
            for n, s in zip(counts, samplers, strict=True)
        ]
        self._asked: dict[int, list[Tensor]] = {}

    def refine(self, chunk: Chunk, part: Tensor, begin: int) -> None:
        """Put each request's own tokens and confidences in its rows of ``part``, a chunk's columns
        of the table; keep the log-probabilities that were asked for.
        """
        for i, rows, own in self._shares(begin, part.shape[1]):
            sampler = self._samplers[i]
            if not sampler.plain:
                part[0, rows], part[1, rows] = chunk.sampled(
                    rows, sampler.sampling, self._uniforms[i][own]
                )
            if sampler.top is not None:
                found = chunk.logprobs(rows, part[0, rows], sampler.top)
                self._asked.setdefault(i, []).append(found)

    def scores(self, host: NDArray[np.float64], chunk: Chunk | None) -> list[Scores | None]:
        """Each request's scores, from the table as it came to the host."""
        ends = np.cumsum(self._counts).tolist()
        asked = {i: _logprobs(torch.cat(parts)) for i, parts in self._asked.items()}
        return [
            _scores(host[:, end - n : end], end - n, chunk, asked.get(i))
            for i, (n, end) in enumerate(zip(self._counts, ends, strict=True))
        ]

    def _shares(self, begin: int, size: int) -> Iterator[tuple[int, slice, slice]]:
        """Each request with rows in a chunk: its rows in the chunk, and the same rows counted from
        its own first.
        """
        first = 0
        for i, count in enumerate(self._counts):
            low, high = max(first, begin), min(first + count, begin + size)
            if low < high:
                yield i, slice(low - begin, high - begin), slice(low - first, high - first)
            first += count


def _logprobs(table: Tensor) -> Logprobs:
    host, top = table.cpu().numpy(), table.shape[1] // 2
    return Logprobs(host[:, 0], host[:, 1 + top :].astype(np.int64), host[:, 1 : 1 + top])


def _scores(
    host: NDArray[np.float64], first: int, chunk: Chunk | None, logprobs: Logprobs | None
) -> Scores | None:
    tokens, confidence, finite, entropy = host
    if not finite.all():
        return None
    ids = tokens.astype(np.int64)
    if chunk is None:
        return Scores(ids, confidence, lambda chosen: entropy[chosen], logprobs)
    return Scores(
        ids,
        confidence,
        lambda chosen: chunk.entropy((first + chosen).tolist()).numpy(),
        logprobs,
    )
