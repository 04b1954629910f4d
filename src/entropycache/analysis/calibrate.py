"""Calibration of tau and k for a model: the cheapest setting whose output agrees, on some prompts,
with decoding without a cache.

The paper (arXiv 2603.18489) does not say how tau is chosen for a new model. Here the candidates are
quantiles of the entropies that decoding without a cache meets on the prompts. They lie where they
make a difference, whatever the model's scale.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from entropycache.analysis.drift import Floats
from entropycache.config.generation import GenerationConfig
from entropycache.engine.engine import Engine
from entropycache.engine.output import Completion, Frame
from entropycache.errors import OptionError
from entropycache.io.results import write_bytes
from entropycache.io.tokenizer import Prompt
from entropycache.observers.statistics import resamples
from entropycache.policies import EntropyCache
from entropycache.policies.saved import SAVED

QUANTILES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
KS = (0, 8, 16, 32, 64, 128)
FEWEST = 10
"""The smallest number of prompts; from fewer, an interval is too wide to be of use."""


@dataclass(frozen=True)
class Setting:
    """A setting that was tried, and its results.

    ``agreement`` is a mean over prompts and ``agreement_low`` the low end of its 95 % interval,
    both from 0 to 1. ``rows_share`` is the number of rows computed over that without a cache;
    ``full_passes`` is a mean over prompts.
    """

    policy: str
    agreement: float
    agreement_low: float
    rows_share: float
    full_passes: float
    accepted: bool


@dataclass(frozen=True)
class Calibration:
    """The chosen policy spec, and every setting that was tried."""

    policy: str
    target: float
    prompts: int
    chosen: Setting
    tried: list[Setting]
    decoding: dict[str, Any]
    """The decoding options that it was made under, and that it holds for."""

    def save(self, folder: Path) -> Path:
        """Write it into a model's folder, where ``policy="calibrated"`` finds it; returns the path.

        Raises ``OptionError`` if it cannot be written.
        """
        path = folder / SAVED
        write_bytes(path, (json.dumps(asdict(self), indent=1) + "\n").encode())
        return path


def calibrate(
    engine: Engine,
    prompts: Sequence[Prompt],
    config: GenerationConfig,
    target: float = 0.99,
    report: Callable[[Setting], None] = lambda candidate: None,
) -> Calibration:
    """The cheapest ``entropy`` policy that reaches ``target``, under the windows and commits of
    ``config``.

    *Agreement* is the share of answer tokens that equal those of decoding without a cache, as the
    mean over prompts. A setting is accepted if the low end of that mean's 95 % interval, by
    bootstrap over the prompts, reaches the target, so that it is likely to hold on other prompts.
    Cost is the number of rows computed, which no other load on the machine changes. First tau is
    chosen at the default k, then k at that tau. ``report`` is called with each setting tried.

    Raises ``OptionError`` for a target outside (0, 1] and for fewer than ``FEWEST`` prompts,
    ``PromptError`` for one that cannot be decoded.
    """
    if not 0 < target <= 1:
        raise OptionError(f"target agreement must be above 0 and at most 1, not {target}")
    if len(prompts) < FEWEST:
        raise OptionError(f"calibration needs at least {FEWEST} prompts, not {len(prompts)}")
    trial = _Trial(engine, prompts, config, target, report)
    default = EntropyCache().k
    chosen = _cheapest([trial.run(f"entropy:tau={tau:.4g},k={default}") for tau in trial.taus()])
    tau = chosen.policy.split(",")[0]
    others = [trial.run(f"{tau},k={k}") for k in KS if k != default]
    chosen = _cheapest([chosen, *others])
    return Calibration(chosen.policy, target, len(prompts), chosen, trial.tried, asdict(config))


def _cheapest(candidates: Sequence[Setting]) -> Setting:
    """The cheapest accepted setting, and among equals the first, which has the smallest tau.

    There always is one: a tau below 0 recomputes everything, and so agrees.
    """
    return min((c for c in candidates if c.accepted), key=lambda c: c.rows_share)


class _Trial:
    """The prompts, their completions without a cache, and the settings tried so far."""

    def __init__(
        self,
        engine: Engine,
        prompts: Sequence[Prompt],
        config: GenerationConfig,
        target: float,
        report: Callable[[Setting], None],
    ) -> None:
        self._engine, self._prompts, self._config = engine, list(prompts), config
        self._target, self._report = target, report
        self._entropies: list[float] = []
        self._plain = self._decode("none", self._note)
        self._rows = sum(done.rows_computed for done in self._plain)
        self.tried: list[Setting] = []

    def taus(self) -> list[float]:
        """Candidates for tau in nats, ascending: -1, quantiles of the entropies met, infinity."""
        met = np.quantile(self._entropies, QUANTILES) if self._entropies else np.zeros(1)
        rounded = {float(f"{value:.4g}") for value in met.tolist()}
        return [-1.0, *sorted(rounded), float("inf")]

    def run(self, policy: str) -> Setting:
        """Decode all prompts with a policy, and compare them with decoding without a cache."""
        done = self._decode(policy)
        agreed = np.array([agreement(a, b) for a, b in zip(self._plain, done, strict=True)])
        low = _low(agreed)
        candidate = Setting(
            policy,
            round(float(agreed.mean()), 5),
            round(low, 5),
            round(sum(d.rows_computed for d in done) / self._rows, 5),
            round(float(np.mean([d.full_passes for d in done])), 2),
            low >= self._target,
        )
        self.tried.append(candidate)
        self._report(candidate)
        return candidate

    def _decode(
        self, policy: str, on_step: Callable[[Frame], None] | None = None
    ) -> list[Completion]:
        config = self._config.merge(policy=policy)
        done = dict(self._engine.run([(p, config) for p in self._prompts], on_step=on_step))
        return [done[i] for i in range(len(self._prompts))]

    def _note(self, frame: Frame) -> None:
        if len(frame.step.commit.positions):
            self._entropies.append(float(frame.step.entropies.max()))


def agreement(plain: Completion, other: Completion) -> float:
    """The share of equal tokens, position by position, over the longer of two answers.

    It is 1 for two empty answers.
    """
    length = max(plain.answer_tokens, other.answer_tokens)
    pairs = zip(plain.token_ids[:length], other.token_ids[:length], strict=True)
    return sum(a == b for a, b in pairs) / length if length else 1.0


def _low(agreed: Floats, draws: int = 2000) -> float:
    """The low end of the 95 % interval of the mean of ``agreed`` ``(prompts,)``, by bootstrap over
    prompts with a fixed seed.
    """
    means = agreed[resamples(len(agreed), draws)].mean(axis=1)
    return float(np.quantile(means, 0.025))
