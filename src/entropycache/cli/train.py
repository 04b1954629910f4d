"""``entropycache train`` and ``problems``: reads options; the work is in ``training.command``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from entropycache.cli.app import app, needs_extra


@app.command()
def train(
    output: Annotated[Path, typer.Option(help="folder of the run; goes on where it was left")],
    steps: Annotated[int, typer.Option(min=1, help="optimiser steps in all")] = 6000,
    decay: Annotated[int, typer.Option(min=0, help="last steps, over which the rate falls")] = 1000,
    every: Annotated[int, typer.Option(min=1, help="steps between saves and evaluations")] = 500,
    problems: Annotated[int, typer.Option(min=1, help="held-out problems decoded a task")] = 20,
    seed: Annotated[int, typer.Option(help="seed of weights, order and masks")] = 0,
    start: Annotated[str | None, typer.Option(help="checkpoint to begin from, e.g. tiny")] = None,
    recipe: Annotated[
        Literal["scratch", "further"] | None,
        typer.Option(help="stages of the run; further with --start, else scratch"),
    ] = None,
) -> None:
    """Train the embedded model (needs the extra ``train``)."""
    needs_extra("train", "training", "reasoning_gym")
    from entropycache.training import command
    from entropycache.training.recipe import RECIPES

    chosen = RECIPES[recipe or ("further" if start else "scratch")]
    settings = chosen(steps=steps, decay=decay, seed=seed)
    command.train(output, settings, start, every, problems)


@app.command()
def problems(
    output: Annotated[Path, typer.Option(help="folder for one JSONL file a task")],
) -> None:
    """Draw the held-out problems again, as shipped (needs the extra ``train``)."""
    needs_extra("train", "training", "reasoning_gym")
    from entropycache.training import command

    command.write_problems(output)
