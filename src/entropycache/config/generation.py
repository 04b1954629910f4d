"""Settings as frozen values, and their checks.

The defaults that library, command line and server share stand in ``GenerationConfig`` and nowhere
else.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from entropycache.config.fields import coerce_fields
from entropycache.config.sampling import Confidence, DreamAlgorithm, Ranking, Sampling
from entropycache.errors import OptionError

COMMIT_RULES = ("tokens_per_step", "steps", "threshold", "factor", "eb_gamma")


def _help(text: str) -> dict[str, str]:
    return {"help": text}


@dataclass(frozen=True)
class GenerationConfig:
    """Every decoding option. Immutable, checked when made; wrong values raise ``OptionError``.

    ``block_length`` or ``window`` chooses the window rule, and one of ``tokens_per_step``,
    ``steps``, ``threshold``, ``factor``, ``eb_gamma`` the commit rule; with none given, a window of
    32 (or the one the policy was published with) and a threshold of 0.9. ``alg`` with ``steps`` is
    Dream's own sampler, which has the whole canvas in view. ``max_new_tokens`` limits the text, not
    the canvas: decoding ends once that many leading positions are committed.
    """

    policy: str = field(
        default="entropy", metadata=_help("cache policy, e.g. none or entropy:tau=1.0,k=64")
    )
    gen_length: int = field(default=256, metadata=_help("masked positions to fill"))
    block_length: int | None = field(
        default=None, metadata=_help("semi-autoregressive blocks of this length")
    )
    window: int | None = field(
        default=None, metadata=_help("sliding window over this many leftmost masks (default 32)")
    )
    tokens_per_step: int | None = field(
        default=None, metadata=_help("commit this many tokens a step")
    )
    steps: int | None = field(
        default=None, metadata=_help("LLaDA's schedule: this many steps in all")
    )
    threshold: float | None = field(
        default=None, metadata=_help("commit every token at least this probable (default 0.9)")
    )
    factor: float | None = field(
        default=None, metadata=_help("commit rank n while its confidence >= 1 - factor/(n+1)")
    )
    eb_gamma: float | None = field(
        default=None, metadata=_help("EB-sampler: commit while entropies sum to this, the last out")
    )
    confidence: Confidence | None = field(
        default=None, metadata=_help("what candidates are ranked by (default probability)")
    )
    order: Ranking = field(
        default=Ranking.CONFIDENCE, metadata=_help("confidence, random or left-to-right")
    )
    sigma: float | None = field(
        default=None, metadata=_help("rank by confidence x certainty density this wide (d2Cache)")
    )
    alg: DreamAlgorithm | None = field(
        default=None, metadata=_help("Dream's sampler by its name for it; needs steps")
    )
    alg_temp: float | None = field(
        default=None, metadata=_help("alg: draw what is committed at this temperature; 0 ranks")
    )
    temperature: float = field(default=0.0, metadata=_help("0 takes the most probable token"))
    top_p: float = field(
        default=1.0, metadata=_help("sample from the smallest set of tokens this probable")
    )
    top_k: int = field(default=0, metadata=_help("sample from this many tokens; 0 is no limit"))
    seed: int = field(default=0, metadata=_help("seed of the sampler"))
    early_stop: bool = field(default=True, metadata=_help("end once the answer is complete"))
    stop: tuple[str, ...] = field(
        default=(), metadata=_help("end the answer before this string; may be repeated")
    )
    max_new_tokens: int | None = field(default=None, metadata=_help("limit of the answer's tokens"))

    DEFAULT_WINDOW: typing.ClassVar[int] = 32
    DEFAULT_THRESHOLD: typing.ClassVar[float] = 0.9

    def __post_init__(self) -> None:
        coerce_fields(self)
        self._one_of("block_length", "window")
        self._one_of(*COMMIT_RULES)
        for name in (
            "gen_length",
            "block_length",
            "window",
            "tokens_per_step",
            "steps",
            "max_new_tokens",
        ):
            self._require(name, "1 or more", lambda v: v >= 1)
        self._require("threshold", "a probability above 0 and at most 1", lambda v: 0 < v <= 1)
        self._require("factor", "above 0", lambda v: v > 0)
        self._require("eb_gamma", "0 or more nats", lambda v: v >= 0)
        self._require("sigma", "above 0, and finite", lambda v: 0 < v < math.inf)
        self._require("alg_temp", "0 or more, and finite", lambda v: 0 <= v < math.inf)
        self._require("temperature", "0 or more, and finite", lambda v: 0 <= v < math.inf)
        self._require("top_p", "above 0 and at most 1", lambda v: 0 < v <= 1)
        self._require("top_k", "0 (no limit) or more", lambda v: v >= 0)
        self._require("seed", "from 0 to 2**63 - 1", lambda v: 0 <= v < 2**63)
        if "" in self.stop:
            raise OptionError("stop must not hold an empty string")
        self._check_ranking()
        if self.steps and self.block_length and self.steps % self.blocks:
            raise OptionError(
                f"steps={self.steps} cannot be spread over {self.blocks} blocks; "
                f"give a multiple of {self.blocks}"
            )

    @classmethod
    def of(cls, base: GenerationConfig | None = None, **options: Any) -> GenerationConfig:
        """``base`` (or the defaults) with ``options`` replaced; unknown names are errors that list
        the known ones.

        An option replaces its alternatives: a ``threshold`` given here takes the place of the
        base's ``steps``.
        """
        known = [item.name for item in dataclasses.fields(cls)]
        for name in options:
            if name not in known:
                raise OptionError(f"unknown option {name!r}; known: {', '.join(known)}")
        values = {name: getattr(base, name) for name in known} if base else {}
        for group in (
            ("block_length", "window"),
            COMMIT_RULES,
        ):
            if any(options.get(name) is not None for name in group):
                values |= dict.fromkeys(group)
        return cls(**(values | options))

    @property
    def windowed(self) -> bool:
        """Whether the options say which window is used; Dream's sampler is one such."""
        return bool(self.block_length or self.window or self.alg)

    @property
    def ruled(self) -> bool:
        """Whether the options say how many tokens a step commits."""
        return any(getattr(self, name) is not None for name in COMMIT_RULES)

    def in_force(self, preferred_window: int = DEFAULT_WINDOW) -> GenerationConfig:
        """The same with the window and the commit rule spelt out that act where none is given."""
        spelt: dict[str, Any] = {} if self.ruled else {"threshold": self.DEFAULT_THRESHOLD}
        if not self.windowed:
            spelt["window"] = preferred_window
        return GenerationConfig.of(self, **spelt)

    @property
    def blocks(self) -> int:
        """How many blocks the generated region has; one under a sliding window."""
        return math.ceil(self.gen_length / self.block_length) if self.block_length else 1

    @property
    def sampling(self) -> Sampling:
        """The part that the scoring of logits needs."""
        return Sampling(
            self.temperature, self.top_p, self.top_k, self.seed, self._confidence, bool(self.alg)
        )

    @property
    def _confidence(self) -> Confidence:
        """What candidates are ranked by once every option had its say."""
        if self.confidence is not None:
            return self.confidence
        if self.eb_gamma is not None or self.alg is DreamAlgorithm.ENTROPY:
            return Confidence.ENTROPY
        margin = self.alg is DreamAlgorithm.TOPK_MARGIN
        return Confidence.MARGIN if margin else Confidence.PROBABILITY

    def _check_ranking(self) -> None:
        """Refuse what would be ignored, or would rank the wrong way round."""
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

    def _require(self, name: str, accepted: str, holds: Callable[[Any], bool]) -> None:
        value = getattr(self, name)
        if value is not None and not holds(value):
            raise OptionError(f"{name} must be {accepted}, not {value}")


PLAIN = GenerationConfig(policy="none", block_length=32, tokens_per_step=1, early_stop=False)
"""Plain decoding: one token a step, every pass full, the whole region decoded."""
