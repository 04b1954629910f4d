"""The work of ``entropycache bench`` once its options are read."""

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
    """The choice of cases, as the command line gives it: held-out problems, or an ``input`` file.

    ``count`` problems are decoded in each setting of ``shots`` worked examples.
    """

    tasks: tuple[str, ...]
    count: int
    shots: tuple[int, ...] = (0,)
    input: Path | None = None

    def cases(self, engine: Engine) -> dict[str, list[Case]]:
        """The cases of each setting, by its name.

        Raises what ``problem_cases`` and ``file_cases`` raise.
        """
        if self.input is not None:
            return {self.input.name: file_cases(self.input, engine)}
        return {f"{n}-shot": problem_cases(self.tasks, self.count, n) for n in self.shots}


@dataclass(frozen=True)
class Matrix:
    """The configurations to compare: every combination of its lists.

    ``plain`` adds plain decoding, ``against`` foreign functions as ``module:function``.
    """

    models: tuple[str, ...] = ("tiny",)
    policies: tuple[str, ...] = ("none", "entropy")
    rules: tuple[str, ...] = ("threshold=0.9",)
    lengths: tuple[int, ...] = (256,)
    plain: bool = True
    against: tuple[str, ...] = ()
    dtype: str = "auto"
    device: str = "auto"

    def candidates(self) -> list[Candidate]:
        """Every combination, for each model and length plain decoding first if it is wanted.

        Raises ``OptionError`` for wrong options and for a combination asked for twice, and
        ``CheckpointError`` for a model that cannot be loaded.
        """
        engines = {m: load(m, dtype=self.dtype, device=self.device) for m in self.models}
        theirs = {spec: foreign.load_foreign(spec) for spec in self.against}
        rows = []
        for model, length in product(self.models, self.lengths):
            engine, sized = engines[model], GenerationConfig(gen_length=length)
            suffix = _suffix(self, model, length)
            if self.plain:
                rows.append(Candidate(f"plain{suffix}", engine, PLAIN.merge(gen_length=length)))
            for rule in self.rules:
                rows += self._ruled(engine, sized, rule, suffix, theirs)
        twice = [
            name
            for name, count in Counter(candidate.name for candidate in rows).items()
            if count > 1
        ]
        if twice:
            raise OptionError(f"asked for twice: {twice[0]}; give each configuration once")
        return rows

    def _ruled(
        self,
        engine: Engine,
        sized: GenerationConfig,
        rule: str,
        suffix: str,
        theirs: dict[str, foreign.Foreign],
    ) -> list[Candidate]:
        # Defaults are filled in here, so that every policy runs with the same window.
        config = sized.merge(**options_of(rule)).with_defaults()
        named = f"{suffix}, {rule}" if len(self.rules) > 1 else suffix
        ours = [
            Candidate(f"{policy}{named}", engine, config.merge(policy=policy))
            for policy in self.policies
        ]
        return ours + [Candidate(f"{n}{named}", engine, config, f) for n, f in theirs.items()]


def options_of(rule: str) -> dict[str, Any]:
    """The decoding options of a rule written as ``threshold=0.9,window=64``.

    Raises ``OptionError`` for an unknown option, and for policy and length, which are given apart.
    """
    options = converted(GenerationConfig, Spec.parse(f"rule:{rule}"))
    for name, option in (("policy", "--policy"), ("gen_length", "--gen-length")):
        if name in options:
            raise OptionError(f"--rule {rule}: {name} has an option of its own, {option}")
    return options


def compare(matrix: Matrix, chosen: Chosen, output: Path) -> None:
    """Run a matrix, print its tables, and write JSON, CSV and pictures to ``output``.

    Files are written after each setting, so that a run that is interrupted leaves results. All
    cases are checked before any is decoded. Raises what ``check`` raises, and
    ``NonFiniteLogitsError``.
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
    """Check that every candidate can decode every case.

    Raises ``OptionError`` or ``PromptError`` for the first that cannot be decoded.
    """
    for candidate in candidates:
        for case in (case for cases in settings.values() for case in cases):
            candidate.engine.request(0, case.prompt, candidate.config)


def _described(candidate: Candidate) -> dict[str, Any]:
    """The options in force; for foreign code those that it is given."""
    return (
        foreign.accepted(candidate.foreign, candidate.config)
        if candidate.foreign
        else asdict(candidate.config)
    )


def attribute(engine: Engine, config: GenerationConfig, chosen: Chosen, output: Path) -> None:
    """Measure the gain of each ingredient of a configuration, print it, and write it to ``output``.

    Raises ``OptionError`` for a configuration without an ingredient, what ``check`` raises, and
    ``NonFiniteLogitsError``.
    """
    files.make_folder(output)
    candidates = attribution.candidates(engine, config)
    settings = chosen.cases(engine)
    check(candidates, settings)
    for setting, cases in settings.items():
        numbers = report.numbers(_run(candidates, cases, setting))
        report.show(numbers, f"{config.policy}, {setting}: what each ingredient gives")
        plots.time_split(numbers, output / f"attribution_{setting}.png")
        flat = [{"name": name, **row} for name, row in numbers.items()]
        name = f"attribution_{setting}"
        _save(output, name, {"results": numbers, "config": asdict(config)}, flat)


@dataclass(frozen=True)
class Scaling:
    """The random model to measure, and the lengths of its ``canvases`` in positions."""

    shape: str
    layers: int | None
    canvases: tuple[int, ...]
    policies: tuple[str, ...]
    steps: int
    dtype: str
    device: str


def scale_up(asked: Scaling, output: Path) -> None:
    """Measure the time of steps and decisions by canvas, print it, and write it to ``output``.

    Raises ``OptionError`` for an unknown dtype, shape or device, and what ``scale`` raises.
    """
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
