"""The work of ``entropycache eval`` once its options are read: build tasks, evaluate, report."""

from __future__ import annotations

import json
import logging
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import lm_eval
import numpy as np
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from entropycache.engine.engine import load
from entropycache.errors import OptionError
from entropycache.evaluation import offline, presets, ranks, report, table
from entropycache.evaluation.journal import Journal
from entropycache.evaluation.lm import EntropyCacheLM
from entropycache.evaluation.tasks import SEED, Wanted, build
from entropycache.io.environment import machine, versions


@dataclass(frozen=True)
class Run:
    """Every setting of an evaluation.

    With ``chat`` left at ``None`` a chat template is used if the model has one. ``limit`` is a
    number of documents of each task, or below 1 a share of them. ``output`` is the report's file.
    """

    model: str = "tiny"
    dtype: str = "auto"
    device: str = "auto"
    tasks: tuple[str, ...] = ()
    preset: str | None = None
    limit: float | None = None
    num_fewshot: int | None = None
    batch_size: int = 8
    chat: bool | None = None
    mc_num: int = 128
    data_dir: Path | None = None
    output: Path | None = None
    log_samples: bool = True
    confirm_run_unsafe_code: bool = False


def listing() -> str:
    """A list of the presets and the offline tasks, as text."""
    lines = ["presets:"]
    for name, preset in presets.PRESETS.items():
        choice = f" (our choice: {preset.ours})" if preset.ours else ""
        lines.append(f"  {name}: {preset.task}, {preset.shots}-shot, {preset.gen_length}{choice}")
    return "\n".join([*lines, "offline tasks:", *(f"  {name}" for name in offline.names())])


def evaluate(run: Run, options: dict[str, Any]) -> None:
    """Run an evaluation, write its report and print its table; of several ranks, the first does.

    ``options`` are those of ``GenerationConfig``. A killed run goes on from its journal.

    Raises ``OptionError`` for settings that are not accepted, among them an output that exists,
    ``PromptError`` for a prompt that is too long, ``CheckpointError`` for a model that cannot be
    loaded, and ``RecordError`` for a damaged file of data or journal.
    """
    preset = presets.find_preset(run.preset) if run.preset else None
    _check(run)
    engine = load(run.model, dtype=run.dtype, device=ranks.own_device(run.device))
    if preset:
        options = presets.decoding(preset, engine.family.model_type, options)
        shots = preset.shots if run.num_fewshot is None else run.num_fewshot
        run = replace(run, tasks=(preset.task,), num_fewshot=shots)
    if run.chat is None:
        templated = engine.tokenizer.backend is not None and bool(
            engine.tokenizer.backend.chat_template
        )
        run = replace(run, chat=templated)
    lm = EntropyCacheLM(engine, batch_size=run.batch_size, mc_num=run.mc_num, **options)
    lm.name = run.model
    try:
        journal = Journal(run.output, lm.rank) if run.output else None
        with journal or nullcontext():
            lm.journal = journal
            results = _measure(run, lm)
        if results is not None:
            _finish(run, results, journal)
    finally:
        ranks.leave()


def _check(run: Run) -> None:
    """Refuse what can be refused before a model is loaded, which may take minutes."""
    if bool(run.tasks) == bool(run.preset):
        raise OptionError(
            "give --tasks or --preset; presets: "
            f"{', '.join(presets.PRESETS)}; offline tasks: {', '.join(offline.names())}"
        )
    if run.limit is not None and (run.limit <= 0 or run.limit > 1 and run.limit % 1):
        raise OptionError(f"limit must be a whole number or a share, above 0, not {run.limit:g}")
    if run.num_fewshot is not None and run.num_fewshot < 0:
        raise OptionError(f"num_fewshot must be 0 or more, not {run.num_fewshot}")
    if run.output and run.output.exists():
        raise OptionError(f"--output {run.output}: exists already; remove it or give another name")


def _measure(run: Run, lm: EntropyCacheLM) -> dict[str, Any] | None:
    """The report on the first rank, ``None`` on the others."""
    with _quiet():
        tasks = build(Wanted(run.tasks, bool(run.chat), run.num_fewshot, run.data_dir))
        _check_unsafe(tasks["tasks"], run)
        _seed()
        with _progress(lm):
            results = lm_eval.evaluate(
                lm,
                tasks,
                limit=run.limit,
                apply_chat_template=bool(run.chat),
                fewshot_as_multiturn=True,
                log_samples=run.log_samples,
                confirm_run_unsafe_code=run.confirm_run_unsafe_code,
            )
        answers, scores = lm.gather_object(lm.answers), lm.gather_object(lm.likelihoods)
    if results is None or answers is None or scores is None:
        return None
    settings = {k: str(v) if isinstance(v, Path) else v for k, v in asdict(run).items()}
    facts = {"settings": settings | {"seed": SEED, "options": lm.options, "ranks": lm.world_size}}
    facts |= {"model": lm.get_model_info() | {"family": lm.engine.family.model_type}}
    facts |= {"versions": versions(["lm_eval"]), "machine": machine()}
    work = report.Work(answers, scores, lm.engine.family)
    facts |= {"tasks": report.tasks(results, work)}
    return facts | ({"samples": report.samples(results, work)} if run.log_samples else {})


def _seed() -> None:
    """Seed the generators that a task's own code may use.

    Decoding and likelihoods have generators of their own, seeded by the option ``seed``.
    """
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)


def _check_unsafe(tasks: dict[str, Any], run: Run) -> None:
    unsafe = [name for name, task in tasks.items() if getattr(task, "UNSAFE_CODE", False)]
    if unsafe and not run.confirm_run_unsafe_code:
        raise OptionError(
            f"{', '.join(unsafe)} runs programs that the model writes, each in a limited process; "
            "give --confirm-run-unsafe-code to allow it"
        )


def _finish(run: Run, results: dict[str, Any], journal: Journal | None) -> None:
    """Write the report, remove the journal and show the table."""
    if run.output and journal:
        text = json.dumps(results, ensure_ascii=False, indent=1, default=str)
        # Renamed when whole: a run killed here leaves the journal and no half of a report.
        part = run.output.with_name(run.output.name + ".part")
        part.write_text(text + "\n", encoding="utf-8")
        part.replace(run.output)
        journal.remove()
    table.show(results)
    failed = sum(task.get("failed", 0) for task in results["tasks"].values())
    if failed:
        print(f"{failed} answers were cut off by NaN or infinite logits and judged as they stood")


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence lm_eval, the hub and ``datasets`` below errors: the report says the rest."""
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    loggers = [logging.getLogger(name) for name in ("lm_eval", "huggingface_hub", "datasets")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def _progress(lm: EntropyCacheLM) -> Iterator[None]:
    """Show a bar of finished requests on the first rank's terminal.

    Its total grows: lm_eval hands over generations and likelihoods one kind after the other.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True)
    bar = Progress(*columns, TimeRemainingColumn(), console=console, disable=lm.rank > 0)
    with bar:
        task = bar.add_task("answering", total=None)
        lm.expect = lambda count: bar.update(task, total=(bar.tasks[task].total or 0) + count)
        lm.watch = lambda count: bar.advance(task, count)
        yield
