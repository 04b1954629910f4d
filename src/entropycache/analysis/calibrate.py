"""Which tau and k to use for a model: the cheapest whose output agrees, on a few prompts, with
decoding without a cache.

The paper does not say how tau is chosen for a new model. Here the candidates are quantiles of the
entropies that decoding without a cache meets on the prompts, so that they lie where they make a
difference, whatever the model's scale.
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
"""Prompts: of fewer, no interval says anything."""


@dataclass(frozen=True)
class Setting:
    """A setting and what it gave: mean agreement, the low end of its interval, and the rows it
    computed as a share of those without a cache.
    """

    policy: str
    agreement: float
    agreement_low: float
    rows_share: float
    full_passes: float
    accepted: bool


@dataclass(frozen=True)
class Calibration:
    """The chosen spec, and everything that was tried."""

    policy: str
    target: float
    prompts: int
    chosen: Setting
    tried: list[Setting]
    decoding: dict[str, Any]
    """The decoding options it was made under, and holds for."""

    def save(self, folder: Path) -> Path:
        """Write it beside a model, where ``policy="calibrated"`` finds it."""
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
    """The cheapest ``entropy`` policy that holds ``target``, under the windows and commits of
    ``config``.

    *Agreement* is the share of answer tokens that stand where decoding without a cache, all else
    equal, puts them, as the mean over prompts. A setting is accepted when the low end of that
    mean's 95 % interval, by bootstrap over the prompts, reaches the target: so that it is likely to
    hold on prompts it has not seen. Cost is rows computed, which no other load on the machine
    changes. First tau is chosen at the default k, then k at that tau. A tau below 0, which
    recomputes everything, is the last resort and always agrees.
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
    """Among equally cheap ones the earlier: taus come from below."""
    return min((c for c in candidates if c.accepted), key=lambda c: c.rows_share)


class _Trial:
    """The prompts, and what decoding without a cache makes of them."""

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
        """Below zero, quantiles of what was met, and one that nothing exceeds; ascending."""
        found = np.quantile(self._entropies, QUANTILES) if self._entropies else np.zeros(1)
        rounded = {float(f"{value:.4g}") for value in found.tolist()}
        return [-1.0, *sorted(rounded), float("inf")]

    def run(self, policy: str) -> Setting:
        """Decode all prompts with a policy."""
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
    """Share of equal tokens, position by position, over the longer of two answers; two empty ones
    agree.
    """
    length = max(plain.answer_tokens, other.answer_tokens)
    pairs = zip(plain.token_ids[:length], other.token_ids[:length], strict=True)
    return sum(a == b for a, b in pairs) / length if length else 1.0


def _low(agreed: Floats, draws: int = 2000) -> float:
    """The low end of the mean's 95 % interval, prompts drawn with replacement; a fixed seed."""
    means = agreed[resamples(len(agreed), draws)].mean(axis=1)
    return float(np.quantile(means, 0.025))
