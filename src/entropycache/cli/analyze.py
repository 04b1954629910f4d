"""``entropycache analyze`` and ``calibrate``: the method's behaviour and best tau on a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from entropycache.cli.app import Device, Dtype, Model, app, load_engine, needs_extra
from entropycache.cli.bench import Count, Input, Output, Tasks, chosen
from entropycache.cli.decoding_options import decoding_options
from entropycache.config.generation import GenerationConfig
from entropycache.errors import OptionError

PARTS = ("drift", "ablations")
Shots = Annotated[
    int | None, typer.Option(min=0, help="worked examples in front of each problem (default 0)")
]


@app.command()
@decoding_options
def analyze(
    options: dict[str, Any],
    model: Model = "tiny",
    tasks: Tasks = None,
    count: Count = None,
    shots: Shots = None,
    input: Input = None,
    part: Annotated[
        list[str], typer.Option(help="drift or ablations; may be repeated; default both")
    ] = list(PARTS),  # noqa: B006
    output: Output = Path("analysis"),
    dtype: Annotated[
        str, typer.Option(help="auto (drift in float64 for small models), bfloat16, float32 …")
    ] = "auto",
    device: Device = "auto",
) -> None:
    """Report entropy against drift, how long commits stay volatile, and what each setting does.

    Writes one HTML page, with PNGs. Needs the extra ``eval``.
    """
    if wrong := [p for p in part if p not in PARTS]:
        raise OptionError(f"--part must be {' or '.join(PARTS)}, not {wrong[0]!r}")
    config = _without_policy(options, "analyze compares cache policies of its own")
    needs_extra("eval", "analyze", "scipy")
    asked = chosen(tasks, count, None if shots is None else [shots], input)
    from entropycache.cli import analysis_report

    precise, engine = analysis_report.engines(model, dtype, device)
    (cases,) = asked.cases(engine).values()
    analysis_report.analyze(model, precise, engine, cases, config, output, part)


@app.command()
@decoding_options
def calibrate(
    options: dict[str, Any],
    model: Model = "tiny",
    prompts: Annotated[
        Path | None, typer.Option(help="JSONL file, as --input of generate; default held-out tasks")
    ] = None,
    target_agreement: Annotated[
        float, typer.Option(help="share of tokens as without a cache, above 0 and at most 1")
    ] = 0.99,
    tasks: Tasks = None,
    count: Annotated[int | None, typer.Option(min=1, help="problems (default 60)")] = None,
    shots: Shots = None,
    save: Annotated[
        bool, typer.Option("--save", help="save it beside the model, as --policy calibrated")
    ] = False,
    dtype: Dtype = "auto",
    device: Device = "auto",
) -> None:
    """Find the cheapest tau and k whose output agrees with decoding without a cache.

    The decoding options given hold for both.
    """
    config = _without_policy(options, "calibrate finds the policy")
    asked = chosen(tasks, count, None if shots is None else [shots], prompts, usual=60)
    from entropycache.analysis.calibration_command import run_calibration, save_calibration

    engine = load_engine(model, dtype, device)
    (cases,) = asked.cases(engine).values()
    found = run_calibration(engine, [case.prompt for case in cases], config, target_agreement)
    typer.echo(f"use --policy {found.policy}")
    if save:
        save_calibration(found, model)


def _without_policy(options: dict[str, Any], why: str) -> GenerationConfig:
    if "policy" in options:
        raise OptionError(f"{why}; --policy has no meaning here")
    return GenerationConfig().merge(**options)
