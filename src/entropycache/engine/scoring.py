"""Scores of predicted rows: from logits to a candidate token, its confidence and its entropy.

The output head runs chunk by chunk, so a canvas × vocabulary tensor never exists. This module knows
rows and sampling settings, neither positions nor policies.
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
    """The sampling settings of one request, and its own stream of random numbers. ``top`` asks for
    log-probabilities of the candidates and of the ``top`` most probable tokens, ``None`` for none.
    """

    sampling: Sampling
    top: int | None = None
    generator: torch.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.generator = torch.Generator().manual_seed(self.sampling.seed)

    @property
    def plain(self) -> bool:
        """True if the greedy token and its probability are all that is asked for."""
        return self.sampling.confidence is Confidence.PROBABILITY and not self.sampling.reshaped

    def uniforms(self, count: int) -> Tensor:
        """Numbers from U(0, 1), ``(count,)`` in float64."""
        # From the host's generator: a seed gives the same tokens on every device.
        return torch.rand(count, generator=self.generator, dtype=torch.float64)


class Chunk:
    """Logits ``(rows, vocab_size)`` with the mask token suppressed, and their distributions.

    Of each row: ``tokens``, the most probable, ``best`` their logits and ``peak`` their
    probabilities at temperature 1; ``finite`` is false where the network gave NaN or infinity.
    """

    def __init__(self, logits: Tensor, mask_id: int) -> None:
        self.logits = logits if logits.dtype == torch.float64 else logits.float()
        # Before the mask token's own logit, which may be NaN, is overwritten.
        lowest, highest = self.logits.aminmax(dim=-1)
        self.finite = lowest.isfinite() & highest.isfinite()  # NaN is both
        # The finite minimum, not -inf. Both have probability 0, but the entropy multiplies the two:
        # 0 * -inf is NaN, `NaN > tau` is false, and a cache policy would never refresh again.
        self.logits[:, mask_id] = torch.finfo(self.logits.dtype).min
        self.best, self.tokens = self.logits.max(dim=-1)
        self.probabilities = self.logits.softmax(dim=-1)
        self.peak = self.probabilities.gather(1, self.tokens[:, None]).squeeze(1)

    def release(self) -> None:
        """Free the large tensors; ``entropy`` must not be called after that."""
        self.logits = self.probabilities = torch.empty(0, 0)

    def entropy(self, rows: Sequence[int]) -> Tensor:
        """Shannon entropies of some rows in nats, ``(len(rows),)``: H = logsumexp(l) - p·l, the
        first term from values at hand, as peak = exp(best - logsumexp).
        """
        assert len(self.logits), "entropies are there until the next pass"
        index = torch.as_tensor(rows, device=self.peak.device, dtype=torch.int64)
        total = self.best[index].double() - self.peak[index].double().log()
        dots = _dots_by_row if self.logits.device.type == "cpu" else _dots_at_once
        mean = dots(self.probabilities, self.logits, index)
        return (total - mean.double()).clamp(min=0)  # a sure row can round to just below 0

    def logprobs(self, rows: slice, tokens: Tensor, top: int) -> Tensor:
        """Log-probabilities (nats) of ``tokens`` and of the ``top`` most probable tokens, then the
        ids of the latter: ``(rows, 1 + 2 * top)`` in float64.
        """
        logits = self.logits[rows].double()
        values, ids = logits.topk(min(top, logits.shape[1]), dim=-1)
        own = logits.gather(1, tokens.long()[:, None])
        total = self.best[rows].double() - self.peak[rows].double().log()
        return torch.cat((torch.cat((own, values), dim=1) - total[:, None], ids), dim=1)

    def sampled(self, rows: slice, sampling: Sampling, uniforms: Tensor) -> tuple[Tensor, Tensor]:
        """Candidate tokens and their confidences, both ``(rows,)``, under a request's settings.
        Above temperature 0 tokens are drawn with ``uniforms`` ``(rows,)``.
        """
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
    """p·l of some rows, ``(n,)``, one by one without a copy: the quick way on a CPU."""
    dots = [torch.dot(p[i], logits[i]) for i in rows.tolist()]
    return torch.stack(dots) if dots else p.new_empty(0)


def _dots_at_once(p: Tensor, logits: Tensor, rows: Tensor) -> Tensor:
    """p·l of some rows, ``(n,)``, in one kernel over all rows: the quick way on a GPU."""
    dots: Tensor = torch.linalg.vecdot(p, logits)
    return dots[rows]


def truncated(logits: Tensor, sampling: Sampling) -> Tensor:
    """softmax(logits / temperature) ``(rows, vocab_size)`` in float64, cut by top-p and top-k and
    normalised again. Both cut the scaled distribution, and the token that crosses ``top_p`` stays.
    A temperature of 0 does not scale.
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
    """One token for each row, ``(rows,)``, from distributions ``(rows, vocab_size)``, by inverting
    the cumulative distribution at ``uniforms`` ``(rows,)``.
    """
    cumulative = p.cumsum(dim=-1)
    # Rounding: the total is not quite 1, and a number may still fall behind every token.
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
    ``counts`` how many each has; ``head`` maps ``(n, width)`` to logits. The chunk returned is the
    one that entropies are still computed from, if any.
    """
    size = max(1, CHUNK_ENTRIES // vocab_size)
    # Entropies are needed of committed rows alone, known once the strategy has chosen. They can
    # wait where all logits stay on the host; on a GPU a second read would stall the pass.
    lazy = len(hidden) <= size and hidden.device.type == "cpu"
    batch = _Batch(counts, samplers)
    # One table for all requests, as every copy to the host waits for the device. Float64 holds
    # token ids exactly.
    table = torch.empty((4, len(hidden)), dtype=torch.float64, device=hidden.device)
    chunk = None
    for start in range(0, len(hidden), size):
        chunk = Chunk(head(hidden[start : start + size]), mask_id)
        part = table[:, start : start + size]
        part[0], part[1], part[2] = chunk.tokens, chunk.peak, chunk.finite
        if not lazy:
            part[3] = chunk.entropy(range(part.shape[1]))
        batch.refine(chunk, part, start)
    kept = chunk if lazy else None
    return batch.scores(table.cpu().numpy(), kept), kept


class _Batch:
    """The predicted rows of all requests, and each request's own sampling of its rows."""

    def __init__(self, counts: Sequence[int], samplers: Sequence[Sampler]) -> None:
        self._counts, self._samplers = counts, samplers
        # Drawn for all rows before the first chunk: the size of chunks changes no draw.
        self._uniforms = [
            s.uniforms(n) if s.sampling.temperature > 0 else torch.empty(n)
            for n, s in zip(counts, samplers, strict=True)
        ]
        self._asked: dict[int, list[Tensor]] = {}

    def refine(self, chunk: Chunk, part: Tensor, start: int) -> None:
        """Write requests' own tokens and confidences into ``part`` ``(4, rows)``, the columns of a
        chunk whose first row is ``start``, and keep the log-probabilities asked for.
        """
        for i, rows, own in self._shares(start, part.shape[1]):
            sampler = self._samplers[i]
            if not sampler.plain:
                part[0, rows], part[1, rows] = chunk.sampled(
                    rows, sampler.sampling, self._uniforms[i][own]
                )
            if sampler.top is not None:
                logprobs = chunk.logprobs(rows, part[0, rows], sampler.top)
                self._asked.setdefault(i, []).append(logprobs)

    def scores(self, host: NDArray[np.float64], chunk: Chunk | None) -> list[Scores | None]:
        """Each request's scores, from the table ``(4, rows)`` on the host."""
        ends = np.cumsum(self._counts).tolist()
        asked = {i: _logprobs(torch.cat(parts)) for i, parts in self._asked.items()}
        return [
            _scores(host[:, end - n : end], end - n, chunk, asked.get(i))
            for i, (n, end) in enumerate(zip(self._counts, ends, strict=True))
        ]

    def _shares(self, start: int, size: int) -> Iterator[tuple[int, slice, slice]]:
        """Each request with rows in a chunk: its rows counted from the chunk's first, and the same
        rows counted from its own first.
        """
        first = 0
        for i, count in enumerate(self._counts):
            low, high = max(first, start), min(first + count, start + size)
            if low < high:
                yield i, slice(low - start, high - start), slice(low - first, high - first)
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
