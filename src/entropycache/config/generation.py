"""The decoding options as one frozen value, with their defaults and checks.

``GenerationConfig`` is the only place of the defaults that library, command line and server share.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from dataclasses import dataclass
from typing import Any

from entropycache.config.fields import coerce_fields
from entropycache.config.options import Bounds, check_bounds, option
from entropycache.config.sampling import Confidence, DreamAlgorithm, Ranking, Sampling
from entropycache.errors import OptionError

COMMIT_RULES = ("tokens_per_step", "steps", "threshold", "factor", "eb_gamma")


@dataclass(frozen=True)
class GenerationConfig:
    """Every decoding option of one request, immutable and checked when made.

    ``block_length`` or ``window`` chooses the window rule. Without either it is a window of 32, or
    the one that the policy was published with. One of ``tokens_per_step``, ``steps``,
    ``threshold``, ``factor`` and ``eb_gamma`` chooses the commit rule; without any it is a
    threshold of 0.9. ``alg`` with ``steps`` is Dream's own sampler, whose window is the whole
    canvas. ``max_new_tokens`` limits the text, not the canvas: decoding ends once that many leading
    positions are committed.

    Raises ``OptionError`` for a value that is not accepted and for options that exclude each other.
    """

    policy: str = option("entropy", "cache policy, e.g. none or entropy:tau=1.0,k=64")
    gen_length: int = option(256, "masked positions to fill", Bounds(ge=1))
    block_length: int | None = option(
        None, "semi-autoregressive blocks of this length", Bounds(ge=1)
    )
    window: int | None = option(
        None, "sliding window over this many leftmost masks (default 32)", Bounds(ge=1)
    )
    tokens_per_step: int | None = option(None, "commit this many tokens a step", Bounds(ge=1))
    steps: int | None = option(None, "LLaDA's schedule: this many steps in all", Bounds(ge=1))
    threshold: float | None = option(
        None,
        "commit every token at least this probable (default 0.9)",
        Bounds(gt=0, le=1, words="a probability above 0 and at most 1"),
    )
    factor: float | None = option(
        None, "commit rank n while its confidence >= 1 - factor/(n+1)", Bounds(gt=0)
    )
    eb_gamma: float | None = option(
        None,
        "EB-sampler: commit while entropies sum to this, the last out",
        Bounds(ge=0, words="0 or more nats"),
    )
    confidence: Confidence | None = option(
        None, "what candidates are ranked by (default probability)"
    )
    order: Ranking = option(Ranking.CONFIDENCE, "confidence, random or left-to-right")
    sigma: float | None = option(
        None,
        "rank by confidence x certainty density this wide (d2Cache)",
        Bounds(gt=0, finite=True),
    )
    alg: DreamAlgorithm | None = option(None, "Dream's sampler by its name for it; needs steps")
    alg_temp: float | None = option(
        None,
        "alg: draw what is committed at this temperature; 0 ranks",
        Bounds(ge=0, finite=True),
    )
    temperature: float = option(0.0, "0 takes the most probable token", Bounds(ge=0, finite=True))
    top_p: float = option(
        1.0, "sample from the smallest set of tokens this probable", Bounds(gt=0, le=1)
    )
    top_k: int = option(
        0,
        "sample from this many tokens; 0 is no limit",
        Bounds(ge=0, words="0 (no limit) or more"),
    )
    seed: int = option(
        0, "seed of the sampler", Bounds(ge=0, lt=2**63, words="from 0 to 2**63 - 1")
    )
    early_stop: bool = option(True, "end once the answer is complete")
    stop: tuple[str, ...] = option((), "end the answer before this string; may be repeated")
    max_new_tokens: int | None = option(None, "limit of the answer's tokens", Bounds(ge=1))

    DEFAULT_WINDOW: typing.ClassVar[int] = 32
    DEFAULT_THRESHOLD: typing.ClassVar[float] = 0.9

    def __post_init__(self) -> None:
        coerce_fields(self)
        self._one_of("block_length", "window")
        self._one_of(*COMMIT_RULES)
        check_bounds(self)
        if "" in self.stop:
            raise OptionError("stop must not hold an empty string")
        self._check_ranking()
        if self.steps and self.block_length and self.steps % self.blocks:
            raise OptionError(
                f"steps={self.steps} cannot be spread over {self.blocks} blocks; "
                f"give a multiple of {self.blocks}"
            )

    def merge(self, **options: Any) -> GenerationConfig:
        """A config with ``options`` in place of this one's values.

        An option replaces its alternatives too: a ``threshold`` given here takes the place of
        ``steps``. Raises ``OptionError`` for an unknown name, with the known ones, and for a value
        that is not accepted.
        """
        known = [item.name for item in dataclasses.fields(self)]
        for name in options:
            if name not in known:
                raise OptionError(f"unknown option {name!r}; known: {', '.join(known)}")
        values = {name: getattr(self, name) for name in known}
        for group in (("block_length", "window"), COMMIT_RULES):
            if any(options.get(name) is not None for name in group):
                values |= dict.fromkeys(group)
        return type(self)(**(values | options))

    @property
    def windowed(self) -> bool:
        """True if the options name a window rule, as ``alg`` does: the whole canvas."""
        return bool(self.block_length or self.window or self.alg)

    @property
    def ruled(self) -> bool:
        """True if the options name a commit rule."""
        return any(getattr(self, name) is not None for name in COMMIT_RULES)

    def with_defaults(self, window: int = DEFAULT_WINDOW) -> GenerationConfig:
        """The same config with a window rule and a commit rule, the defaults where none is given.

        ``window`` is the width of the sliding window to use as the default.
        """
        spelt: dict[str, Any] = {} if self.ruled else {"threshold": self.DEFAULT_THRESHOLD}
        if not self.windowed:
            spelt["window"] = window
        return self.merge(**spelt)

    @property
    def blocks(self) -> int:
        """The number of blocks in the generated region; 1 under a sliding window."""
        return math.ceil(self.gen_length / self.block_length) if self.block_length else 1

    @property
    def sampling(self) -> Sampling:
        """The options that the scoring of logits needs, with the confidence that they imply."""
        return Sampling(
            self.temperature, self.top_p, self.top_k, self.seed, self._confidence, bool(self.alg)
        )

    @property
    def _confidence(self) -> Confidence:
        """The measure that candidates are ranked by.

        It is ``confidence`` if given, else the one that ``eb_gamma`` or ``alg`` implies.
        """
        if self.confidence is not None:
            return self.confidence
        if self.eb_gamma is not None or self.alg is DreamAlgorithm.ENTROPY:
            return Confidence.ENTROPY
        margin = self.alg is DreamAlgorithm.TOPK_MARGIN
        return Confidence.MARGIN if margin else Confidence.PROBABILITY

    def _check_ranking(self) -> None:
        """Raise ``OptionError`` for options that would be ignored or would rank the wrong way."""
        # Rules that count tokens need no scores, so any ranking goes with them. The others compare
        # scores with a bound: ranks drawn before the pass mean nothing to them.
        counted = self.tokens_per_step or self.steps
        if self.alg is not None and (self.block_length or self.window):
            raise OptionError(
                f"alg={self.alg} is Dream's sampler over the whole canvas, which has no "
                f"{'block_length' if self.block_length else 'window'}"
            )
        if self.alg is not None and not self.steps:
            raise OptionError(f"alg={self.alg} is Dream's sampler, which needs steps")
        if self.alg_temp is not None and self.alg in (None, DreamAlgorithm.ORIGIN):
            raise OptionError(
                "alg_temp goes with alg=maskgit_plus, topk_margin or entropy, not with "
                f"alg={self.alg}"
            )
        if self.order is not Ranking.CONFIDENCE and not counted:
            raise OptionError(f"order={self.order} needs tokens_per_step or steps")
        for name, given in (
            ("alg", self.alg is not None),
            ("order", self.order is not Ranking.CONFIDENCE),
            ("eb_gamma", self.eb_gamma is not None),
        ):
            others = [n for n in ("confidence", "sigma") if getattr(self, n) is not None]
            if given and others:
                raise OptionError(f"{name} ranks by itself and excludes {' and '.join(others)}")
        if self.alg is not None and self.order is not Ranking.CONFIDENCE:
            raise OptionError("alg ranks by itself and excludes order")
        if self.confidence is Confidence.ENTROPY and (self.sigma is not None or not counted):
            raise OptionError(
                "confidence=entropy ranks by negative entropy, which no threshold, factor or sigma "
                "applies to; use probability or margin, or tokens_per_step or steps without sigma"
            )

    def _one_of(self, *names: str) -> None:
        given = [
            f"{name}={getattr(self, name)}" for name in names if getattr(self, name) is not None
        ]
        if len(given) > 1:
            raise OptionError(
                f"{' and '.join(given)} exclude each other; give one of {', '.join(names)}"
            )


PLAIN = GenerationConfig(policy="none", block_length=32, tokens_per_step=1, early_stop=False)
"""Plain decoding: one token a step, every pass full, the whole region decoded (LLaDA's sampler)."""
