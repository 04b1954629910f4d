"""Configurations side by side in one run.

Every configuration decodes a case before the next case starts, in rotating order, so that a noisy
machine favours none.
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
    """A prompt, and the problem that it asks, if there is one to judge the answer by."""

    prompt: Prompt
    problem: HeldOut | None = None

    @property
    def group(self) -> str:
        """The name that results are grouped by: the task, or ``prompts``."""
        return self.problem.task if self.problem else "prompts"


@dataclass(frozen=True)
class Candidate:
    """A configuration on a model. ``foreign``, if given, decodes in the engine's place."""

    name: str
    engine: Engine
    config: GenerationConfig
    foreign: Foreign | None = None
    model: str = ""
    """The name of the model, needed only if several engines run the same one."""

    @property
    def dtype(self) -> str:
        """The dtype of the network, such as ``float32``."""
        return str(self.engine.network.embedding.dtype).removeprefix("torch.")


@dataclass
class Result:
    """The results of one candidate so far, case by case.

    ``done`` are the completions of ``cases``, ``parts`` their seconds by part of ``timing.PARTS``.
    """

    candidate: Candidate
    cases: list[Case] = field(default_factory=list)
    done: list[Completion] = field(default_factory=list)
    parts: list[dict[str, float]] = field(default_factory=list)

    def add(self, case: Case) -> None:
        """Decode one case. Raises ``NonFiniteLogitsError``, or ``OptionError`` for foreign code."""
        recorder = Recorder(self.candidate.engine.network.embedding.device)
        self.cases.append(case)
        self.done.append(_decoded(self.candidate, case, recorder))
        self.parts.append(recorder.seconds)

    @property
    def solved(self) -> list[bool]:
        """``True`` for each solved case; cases that cannot be judged are left out."""
        pairs = zip(self.cases, self.done, strict=True)
        return [c.problem.solved_by(d.text) for c, d in pairs if c.problem is not None]

    @property
    def speed(self) -> float:
        """Answer tokens a second over all cases; tokens behind the end token do not count."""
        seconds = sum(d.seconds for d in self.done)
        return sum(d.answer_tokens for d in self.done) / seconds if seconds else 0.0

    def numbers(self, base: Result) -> dict[str, Any]:
        """Accuracy, speed and work, and how they compare with ``base`` on the same cases.

        Names end with their unit where there is one (``_percent``, ``_per_second``). Intervals are
        at 95 %. ``None`` stands for a number that does not exist, such as the accuracy of answers
        that cannot be judged.
        """
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
        """``solved of cases`` for each task, as text."""
        solved: dict[str, list[bool]] = {}
        for case, done in zip(self.cases, self.done, strict=True):
            if case.problem is not None:
                solved.setdefault(case.group, []).append(case.problem.solved_by(done.text))
        return {group: f"{sum(s)} of {len(s)}" for group, s in solved.items()}

    def _shares(self) -> dict[str, float]:
        sums = {name: sum(parts[name] for parts in self.parts) for name in PARTS}
        total = sum(sums.values())
        return {name: round(100 * s / total, 2) for name, s in sums.items()} if total else {}


def interleave(candidates: Sequence[Candidate], cases: Sequence[Case]) -> Iterator[list[Result]]:
    """Decode all cases by all candidates, and yield all results after each case.

    Raises ``OptionError`` without a candidate or a case, and what ``Result.add`` raises.
    """
    if not candidates or not cases:
        raise OptionError("a comparison needs at least one configuration and one case")
    # A first run of each that is not counted: it pays for caches, kernels and lazy loading.
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
    # A recorder that waits for the GPU between parts slows decoding down. Its shares stand, but the
    # time is that of a second run without any wait inside.
    if recorder.synchronizes:
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
