"""Configurations side by side: every case decoded by every one before the next case, in rotating
order, so that a noisy machine favours none.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from entropycache.bench.foreign import Foreign, decode_foreign
from entropycache.config.generation import GenerationConfig
from entropycache.engine.engine import Engine
from entropycache.engine.loop import decode
from entropycache.engine.output import Completion
from entropycache.engine.timing import PARTS, Recorder
from entropycache.errors import NonFiniteLogitsError, OptionError
from entropycache.io.problems import HeldOut
from entropycache.io.tokenizer import Prompt
from entropycache.observers.statistics import ratio_interval, wilson


@dataclass(frozen=True)
class Case:
    """A prompt, and the problem it asks, where there is one that an answer can be judged by."""

    prompt: Prompt
    problem: HeldOut | None = None

    @property
    def group(self) -> str:
        """What results are broken down by."""
        return self.problem.task if self.problem else "prompts"


@dataclass(frozen=True)
class Candidate:
    """A configuration on a model; ``foreign`` decodes in the engine's place."""

    name: str
    engine: Engine
    config: GenerationConfig
    foreign: Foreign | None = None
    model: str = ""
    """Where engines of one model are compared with each other: its name."""

    @property
    def dtype(self) -> str:
        """What the network computes in."""
        return str(self.engine.network.embedding.dtype).removeprefix("torch.")


@dataclass
class Result:
    """What one candidate did so far, case by case."""

    candidate: Candidate
    cases: list[Case] = field(default_factory=list)
    done: list[Completion] = field(default_factory=list)
    parts: list[dict[str, float]] = field(default_factory=list)

    def add(self, case: Case) -> None:
        """Decode one case."""
        recorder = Recorder(self.candidate.engine.network.embedding.device)
        self.cases.append(case)
        self.done.append(_decoded(self.candidate, case, recorder))
        self.parts.append(recorder.seconds)

    @property
    def solved(self) -> list[bool]:
        """Whether each case that can be judged was solved."""
        pairs = zip(self.cases, self.done, strict=True)
        return [c.problem.solved_by(d.text) for c, d in pairs if c.problem is not None]

    @property
    def speed(self) -> float:
        """Tokens before the end token over the time of all cases."""
        seconds = sum(d.seconds for d in self.done)
        return sum(d.answer_tokens for d in self.done) / seconds if seconds else 0.0

    def numbers(self, base: Result) -> dict[str, Any]:
        """Accuracy, speed and work, beside ``base``'s on the same cases."""
        solved, seconds = self.solved, sum(d.seconds for d in self.done)
        tokens = sum(d.answer_tokens for d in self.done)
        rates = ratio_interval(_rates(self.done), _rates(base.done))
        same = [_answer(a) == _answer(b) for a, b in zip(self.done, base.done, strict=True)]
        canvas = sum(len(d.token_ids) for d in self.done)
        return {
            "policy": self.candidate.config.policy if not self.candidate.foreign else "",
            "compared_with": base.candidate.name,
            "dtype": self.candidate.dtype,
            "cases": len(self.done),
            "accuracy_percent": round(100 * statistics.mean(solved), 1) if solved else None,
            "accuracy_interval_95": wilson(sum(solved), len(solved)) if solved else None,
            "same_answer_percent": round(100 * statistics.mean(same), 1),
            "tokens_per_second": round(self.speed, 1),
            "canvas_tokens_per_second": round(canvas / seconds, 1) if seconds else 0.0,
            "speed_up": round(self.speed / base.speed, 2) if base.speed else None,
            "speed_up_interval_95": rates,
            "seconds_quartiles": _quartiles([d.seconds for d in self.done]),
            "prompt_tokens": round(statistics.mean(d.prompt_tokens for d in self.done), 1),
            "answer_tokens": round(tokens / len(self.done), 1),
            "tokens_per_step": _ratio(_commits(self.done), sum(d.forwards for d in self.done)),
            "forwards": round(statistics.mean(d.forwards for d in self.done), 2),
            "full_passes": round(statistics.mean(d.full_passes for d in self.done), 2),
            "rows_per_token": _ratio(sum(d.rows_computed for d in self.done), tokens) or None,
            "time_percent": self._shares(),
        }

    def by_group(self) -> dict[str, str]:
        """Solved of how many, for each task."""
        found: dict[str, list[bool]] = {}
        for case, done in zip(self.cases, self.done, strict=True):
            if case.problem is not None:
                found.setdefault(case.group, []).append(case.problem.solved_by(done.text))
        return {group: f"{sum(s)} of {len(s)}" for group, s in found.items()}

    def _shares(self) -> dict[str, float]:
        sums = {name: sum(parts[name] for parts in self.parts) for name in PARTS}
        total = sum(sums.values())
        return {name: round(100 * s / total, 2) for name, s in sums.items()} if total else {}


def interleave(candidates: Sequence[Candidate], cases: Sequence[Case]) -> Iterator[list[Result]]:
    """Decode all cases by all candidates; yields the results after each case. One case is decoded
    by each first, which warms up and is not counted.
    """
    if not candidates or not cases:
        raise OptionError("a comparison needs at least one configuration and one case")
    for candidate in candidates:
        Result(candidate).add(cases[0])
    rows = [Result(candidate) for candidate in candidates]
    for i, case in enumerate(cases):
        turn = i % len(rows)
        for row in rows[turn:] + rows[:turn]:
            row.add(case)
        yield rows


def _decoded(candidate: Candidate, case: Case, recorder: Recorder) -> Completion:
    if candidate.foreign is not None:
        return decode_foreign(candidate.engine, case.prompt, candidate.config, candidate.foreign)
    completion = _timed(candidate, case, recorder)
    if completion.error is not None:
        raise NonFiniteLogitsError(f"{candidate.name}: {completion.error}")
    if recorder.synchronizes:  # the time of a run in which nobody waits for the device
        recorder = Recorder(torch.device("cpu"))
        with recorder.part("engine"):
            candidate.engine.generate(case.prompt, candidate.config)
    completion.seconds = recorder.total
    completion.tokens_per_second = _ratio(completion.answer_tokens, completion.seconds)
    return completion


def _timed(candidate: Candidate, case: Case, recorder: Recorder) -> Completion:
    request = candidate.engine.request(0, case.prompt, candidate.config)
    with candidate.engine.recording(recorder), recorder.part("engine"):
        for _ in decode([request], candidate.engine.runner):
            pass
    return request.complete()


def _answer(done: Completion) -> list[int]:
    return done.token_ids[: done.answer_tokens]


def _rates(done: Sequence[Completion]) -> list[tuple[float, float]]:
    return [(d.answer_tokens, d.seconds) for d in done]


def _commits(done: Sequence[Completion]) -> int:
    return sum(len(step) for completion in done for step in completion.commits)


def _ratio(over: float, under: float) -> float:
    return round(over / under, 2) if under else 0.0


def _quartiles(values: Sequence[float]) -> list[float]:
    return [round(float(q), 4) for q in np.percentile(values, (25, 50, 75))]
