"""``entropycache eval``: reads its options; the work is done in ``evaluation.command``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from entropycache.cli.app import Device, Dtype, Model, app, import_policy, listed, needs_extra
from entropycache.cli.decoding_options import decoding_options
from entropycache.config.generation import GenerationConfig

Tasks = Annotated[
    str | None, typer.Option(help="names with commas between: lm_eval's, or those of --list")
]
Preset = Annotated[str | None, typer.Option(help="a row of the paper, see --list")]
Listing = Annotated[bool, typer.Option("--list", help="print presets and offline tasks")]
Limit = Annotated[float | None, typer.Option(help="documents of each task; below 1 a share")]
Shots = Annotated[int | None, typer.Option(help="worked examples, the task's own number if unset")]
Batch = Annotated[int, typer.Option(help="answers decoded together")]
Chat = Annotated[bool | None, typer.Option(help="default: where the model has a template")]
Draws = Annotated[int, typer.Option(help="Monte-Carlo draws for a likelihood")]
DataDir = Annotated[
    Path | None, typer.Option(help="folder with TASK.jsonl or TASK/SPLIT.jsonl, for no network")
]
Output = Annotated[Path | None, typer.Option(help="JSON file; a killed run goes on where it was")]
Samples = Annotated[bool, typer.Option(help="put every answer into the output")]
Unsafe = Annotated[
    bool, typer.Option("--confirm-run-unsafe-code", help="run programs that the model writes")
]


@app.command("eval")
@decoding_options
def evaluate(
    options: dict[str, Any],
    model: Model = "tiny",
    tasks: Tasks = None,
    preset: Preset = None,
    list_: Listing = False,
    limit: Limit = None,
    num_fewshot: Shots = None,
    batch_size: Batch = 8,
    apply_chat_template: Chat = None,
    mc_num: Draws = 128,
    data_dir: DataDir = None,
    output: Output = None,
    log_samples: Samples = True,
    confirm_run_unsafe_code: Unsafe = False,
    dtype: Dtype = "auto",
    device: Device = "auto",
) -> None:
    """Evaluate a model on tasks of lm-evaluation-harness and on our own (needs the extra ``eval``).

    Several processes under torchrun share the work.
    """
    _prepare(options)
    from entropycache.evaluation import command

    if list_:
        typer.echo(command.listing())
        return
    run = command.Run(
        model=model,
        dtype=dtype,
        device=device,
        tasks=listed(tasks or ""),
        preset=preset,
        limit=limit if limit is None or limit % 1 else int(limit),
        num_fewshot=num_fewshot,
        batch_size=batch_size,
        chat=apply_chat_template,
        mc_num=mc_num,
        data_dir=data_dir,
        output=output,
        log_samples=log_samples,
        confirm_run_unsafe_code=confirm_run_unsafe_code,
    )
    command.evaluate(run, options)


def _prepare(options: dict[str, Any]) -> None:
    """Refuse what can be refused, and set what must be set, before anything large is imported."""
    needs_extra("eval", "evaluation", "lm_eval", "datasets")
    import_policy(options.get("policy"))
    GenerationConfig().merge(**options)
    # lm_eval draws bars of its own for every task; tqdm reads this when it is first imported.
    os.environ.setdefault("TQDM_DISABLE", "1")
