"""What ``entropycache bench`` does once its options are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from rich.progress import track

from entropycache.bench import attribution, foreign, plots, report
from entropycache.bench.cases import file_cases, problem_cases
from entropycache.bench.comparison import Candidate, Case, Result, interleave
from entropycache.bench.random_models import random_engine
from entropycache.bench.scaling import scale
from entropycache.config.fields import Spec, converted
from entropycache.config.generation import PLAIN, GenerationConfig
from entropycache.engine.engine import Engine, load
from entropycache.errors import OptionError
from entropycache.io import results as files
from entropycache.io.environment import command
from entropycache.models.loading import DTYPES


@dataclass(frozen=True)
class Chosen:
    """What is decoded, as the command line gives it."""

    tasks: tuple[str, ...]
    count: int
    shots: tuple[int, ...] = (0,)
    input: Path | None = None

    def cases(self, engine: Engine) -> dict[str, list[Case]]:
        """The cases by the name of their setting, each asked for once."""
        if self.input is not None:
            return {self.input.name: file_cases(self.input, engine)}
        return {f"{n}-shot": problem_cases(self.tasks, self.count, n) for n in self.shots}


@dataclass(frozen=True)
class Matrix:
    """Which configurations are compared."""

    models: tuple[str, ...] = ("tiny",)
    policies: tuple[str, ...] = ("none", "entropy")
    rules: tuple[str, ...] = ("threshold=0.9",)
    lengths: tuple[int, ...] = (256,)
    plain: bool = True
    against: tuple[str, ...] = ()
    dtype: str = "auto"
    device: str = "auto"

    def candidates(self) -> list[Candidate]:
        """Every combination, plain decoding first where it is wanted."""
        engines = {m: load(m, dtype=self.dtype, device=self.device) for m in self.models}
        theirs = {spec: foreign.load_foreign(spec) for spec in self.against}
        found = []
        for model, length in product(self.models, self.lengths):
            engine, sized = engines[model], GenerationConfig(gen_length=length)
            suffix = _suffix(self, model, length)
            if self.plain:
                found.append(Candidate(f"plain{suffix}", engine, PLAIN.merge(gen_length=length)))
            for rule in self.rules:
                found += self._ruled(engine, sized, rule, suffix, theirs)
        twice = [
            name
            for name, count in Counter(candidate.name for candidate in found).items()
            if count > 1
        ]
        if twice:
            raise OptionError(f"asked for twice: {twice[0]}")
        return found

    def _ruled(
        self,
        engine: Engine,
        sized: GenerationConfig,
        rule: str,
        suffix: str,
        theirs: dict[str, foreign.Foreign],
    ) -> list[Candidate]:
        # Spelt out, so that a window is the same for every policy.
        config = sized.merge(**options_of(rule)).with_defaults()
        named = f"{suffix}, {rule}" if len(self.rules) > 1 else suffix
        ours = [
            Candidate(f"{policy}{named}", engine, config.merge(policy=policy))
            for policy in self.policies
        ]
        return ours + [Candidate(f"{n}{named}", engine, config, f) for n, f in theirs.items()]


def options_of(rule: str) -> dict[str, Any]:
    """Decoding options written as ``threshold=0.9,window=64``; policy and length are not among
    them.
    """
    found = converted(GenerationConfig, Spec.parse(f"rule:{rule}"))
    for name, option in (("policy", "--policy"), ("gen_length", "--gen-length")):
        if name in found:
            raise OptionError(f"--rule {rule}: {name} has an option of its own, {option}")
    return found


def compare(matrix: Matrix, chosen: Chosen, output: Path) -> None:
    """Run a matrix, print its tables, and write JSON, CSV and pictures to ``output`` after each
    setting. What cannot be decoded is known before anything is.
    """
    files.make_folder(output)
    candidates = matrix.candidates()
    settings = chosen.cases(candidates[0].engine)
    check(candidates, settings)
    configs = {candidate.name: _described(candidate) for candidate in candidates}
    results: dict[str, Any] = {}
    for setting, cases in settings.items():
        results[setting] = report.numbers(_run(candidates, cases, setting))
        report.show(results[setting], f"{setting}: {len(cases)} cases, interleaved")
        plots.speed_accuracy(results[setting], output / f"speed_accuracy_{setting}.png")
        plots.time_split(results[setting], output / f"time_{setting}.png")
        flat = [
            {"setting": setting, "name": name, **row}
            for setting, rows in results.items()
            for name, row in rows.items()
        ]
        _save(output, "bench", {"results": results, "configs": configs}, flat)
    if len(results) > 1:
        plots.by_context(flat, output / "context.png")


def check(candidates: Sequence[Candidate], settings: Mapping[str, Sequence[Case]]) -> None:
    """Raise what stands in the way of decoding any case by any configuration."""
    for candidate in candidates:
        for case in (case for cases in settings.values() for case in cases):
            candidate.engine.request(0, case.prompt, candidate.config)


def _described(candidate: Candidate) -> dict[str, Any]:
    """The options in force; for other people's code those that it is given."""
    return (
        foreign.accepted(candidate.foreign, candidate.config)
        if candidate.foreign
        else asdict(candidate.config)
    )


def attribute(engine: Engine, config: GenerationConfig, chosen: Chosen, output: Path) -> None:
    """What each ingredient of a configuration gives."""
    files.make_folder(output)
    found = attribution.candidates(engine, config)
    settings = chosen.cases(engine)
    check(found, settings)
    for setting, cases in settings.items():
        numbers = report.numbers(_run(found, cases, setting))
        report.show(numbers, f"{config.policy}, {setting}: what each ingredient gives")
        plots.time_split(numbers, output / f"attribution_{setting}.png")
        flat = [{"name": name, **row} for name, row in numbers.items()]
        name = f"attribution_{setting}"
        _save(output, name, {"results": numbers, "config": asdict(config)}, flat)


@dataclass(frozen=True)
class Scaling:
    """Which random model is measured, and at which lengths."""

    shape: str
    layers: int | None
    canvases: tuple[int, ...]
    policies: tuple[str, ...]
    steps: int
    dtype: str
    device: str


def scale_up(asked: Scaling, output: Path) -> None:
    """Time of steps and decisions against the canvas."""
    if asked.dtype not in DTYPES:
        raise OptionError(f"dtype must be one of {', '.join(DTYPES)}, not {asked.dtype!r}")
    files.make_folder(output)
    engine = random_engine(asked.shape, asked.layers, DTYPES[asked.dtype], asked.device)
    total = len(asked.canvases) * len(asked.policies)
    running = scale(engine, asked.canvases, asked.policies, asked.steps)
    rows = list(track(running, "measuring", total=total))
    report.show_scaling(rows, f"{asked.shape}, {engine.network.config.num_hidden_layers} layers")
    plots.scaling(rows, output / "scaling.png")
    settings = {**asdict(asked), "parameters": engine.network.parameter_count}
    _save(output, "scaling", {"settings": settings, "rows": rows}, rows)


def _run(candidates: Sequence[Candidate], cases: Sequence[Case], setting: str) -> list[Result]:
    running = interleave(candidates, cases)
    return list(track(running, f"decoding {setting}", total=len(cases)))[-1]


def _save(output: Path, name: str, data: dict[str, Any], flat: Sequence[dict[str, Any]]) -> None:
    files.write_json(output / f"{name}.json", {"command": command(), **data})
    files.write_csv(output / f"{name}.csv", flat)
    print(f"wrote {output}/{name}.json, {name}.csv and pictures")


def _suffix(matrix: Matrix, model: str, length: int) -> str:
    parts = [model] if len(matrix.models) > 1 else []
    parts += [f"gen {length}"] if len(matrix.lengths) > 1 else []
    return f" ({', '.join(parts)})" if parts else ""
