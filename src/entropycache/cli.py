"""The ``entropycache`` command: options in, one line and status 2 for a user's mistake, work done
elsewhere.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from entropycache.config import GenerationConfig
from entropycache.errors import EntropyCacheError, OptionError
from entropycache.options import decoding_options

if TYPE_CHECKING:
    from entropycache.completion import Completion
    from entropycache.engine import Engine, Prompt

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

Model = Annotated[str, typer.Option(help="tiny (the embedded model), a folder, or a hub id")]
Dtype = Annotated[str, typer.Option(help="auto, bfloat16, float32 or float64")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, …")]


def main() -> None:
    """Entry point. OpenMP threads must not spin: two busy cores would run ten times slower."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        app()
    except EntropyCacheError as error:
        print(f"entropycache: {error}", file=sys.stderr)
        sys.exit(2)


@app.command()
@decoding_options
def generate(
    options: dict[str, Any],
    model: Model = "tiny",
    prompt: Annotated[str | None, typer.Option(help="prompt text, as it is")] = None,
    chat: Annotated[
        bool, typer.Option("--chat", help="--prompt is a user's message; alone: a conversation")
    ] = False,
    prompt_ids: Annotated[str | None, typer.Option(help='token ids, as in "1 2 3"')] = None,
    infill: Annotated[
        bool, typer.Option("--infill", help="fill in the mask tokens that --prompt or the ids hold")
    ] = False,
    input: Annotated[Path | None, typer.Option(help="JSONL file of prompts")] = None,
    output: Annotated[
        Path | None, typer.Option(help="JSONL file for completions; goes on where it was left")
    ] = None,
    batch_size: Annotated[int, typer.Option(help="prompts of --input decoded together")] = 8,
    dtype: Dtype = "auto",
    device: Device = "auto",
    trace: Annotated[Path | None, typer.Option(help="write every step to this file")] = None,
    json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Complete a prompt, answer a chat, fill in masks, or work through a file of prompts."""
    _import_policy(options.get("policy"))
    # The length that the options are checked against is that of the masks to be filled in.
    config = GenerationConfig() if infill else GenerationConfig.of(**options)
    single = _single(prompt, chat, prompt_ids)
    _check_modes(prompt is not None or chat, prompt_ids is not None, input, output)
    alone = chat and prompt is None
    _check_extras(input is not None, alone, infill and (chat or bool(input)), json, trace)
    from entropycache import commands
    from entropycache.records import read_records

    records = read_records(input, config) if input else []
    engine = _load(model, dtype, device)
    if input and output:
        commands.generate_file(engine, model, records, output, batch_size, trace)
    elif single is None:
        commands.converse(engine, config)
    else:
        if infill:
            completion = commands.fill_in(engine, model, single, options, trace)
        else:
            completion = commands.generate_one(engine, model, single, config, trace)
        _print(completion, json, text=engine.text.tokenizer is not None)


def _import_policy(spec: str | None) -> None:
    if spec and ":" in spec:
        from entropycache.policies.external import import_policy

        import_policy(spec)


def _check_modes(prompt: bool, ids: bool, input: Path | None, output: Path | None) -> None:
    """One kind of prompt, and files that go together."""
    if (input is None) != (output is None):
        raise OptionError("--input and --output go together")
    if prompt + ids + (input is not None) != 1:
        raise OptionError("give one of --prompt TEXT, --chat, --prompt-ids IDS and --input FILE")
    if input is not None and output is not None and input.resolve() == output.resolve():
        raise OptionError(f"--input and --output are the same file, {input}")


def _check_extras(
    file: bool, conversation: bool, misfilled: bool, json: bool, trace: Path | None
) -> None:
    """What has no meaning for a file, for a conversation, or for masks to be filled in."""
    if misfilled:
        raise OptionError("--infill goes with --prompt or --prompt-ids alone")
    if file and json:
        raise OptionError("--json prints one completion; those of --input go to --output")
    if conversation and (json or trace):
        raise OptionError(
            "--chat without --prompt is a conversation, which has no --json and no --trace"
        )


def _single(prompt: str | None, chat: bool, prompt_ids: str | None) -> Prompt | None:
    """The one prompt that the options give; ``None`` for a file or a conversation."""
    if prompt_ids is not None:
        try:
            return [int(part) for part in prompt_ids.replace(",", " ").split()]
        except ValueError as error:
            raise OptionError(
                f"--prompt-ids takes whole numbers with spaces between, not {prompt_ids!r}"
            ) from error
    return [{"role": "user", "content": prompt}] if chat and prompt is not None else prompt


def _load(model: str, dtype: str, device: str) -> Engine:
    from entropycache.engine import load

    return load(model, dtype=dtype, device=device)


def _print(completion: Completion, as_json: bool, text: bool) -> None:
    if not as_json:
        typer.echo(completion.text if text else " ".join(map(str, completion.token_ids)))
        return
    import json

    typer.echo(json.dumps(asdict(completion), ensure_ascii=False))


@app.command()
def demo(
    model: Model = "tiny",
    policy: Annotated[str, typer.Option(help="the policy shown beside plain decoding")] = "entropy",
    dtype: Dtype = "auto",
) -> None:
    """Solve real problems in the terminal: first plain decoding, then EntropyCache, then what it
    cost.
    """
    _import_policy(policy)
    from entropycache.observers.demo import run_demo

    run_demo(_load(model, dtype, "cpu"), policy)


@app.command()
def policies() -> None:
    """List the cache policies: options, what each recomputes, what deciding costs, its paper."""
    from entropycache.commands import list_policies

    list_policies()


@app.command()
def trace(
    file: Annotated[Path, typer.Argument(help="a trace written by generate --trace")],
    png: Annotated[Path | None, typer.Option(help="picture; default FILE.png")] = None,
    html: Annotated[Path | None, typer.Option(help="page; default FILE.html")] = None,
) -> None:
    """Draw a trace as a PNG and as a self-contained HTML page."""
    from entropycache.observers.pictures import draw_png, write_html
    from entropycache.observers.trace import read_trace

    read = read_trace(file)
    picture, page = png or file.with_suffix(".png"), html or file.with_suffix(".html")
    draw_png(read, picture)
    write_html(read, page, f"{file.name}: {read.header.get('model')}")
    typer.echo(f"wrote {picture} and {page}")


@app.command()
def train(
    output: Annotated[Path, typer.Option(help="folder of the run; goes on where it was left")],
    steps: Annotated[int, typer.Option(min=1, help="optimiser steps in all")] = 6000,
    decay: Annotated[int, typer.Option(min=0, help="last steps, over which the rate falls")] = 1000,
    every: Annotated[int, typer.Option(min=1, help="steps between saves and evaluations")] = 500,
    problems: Annotated[int, typer.Option(min=1, help="held-out problems decoded a task")] = 20,
    seed: Annotated[int, typer.Option(help="seed of weights, order and masks")] = 0,
    start: Annotated[str | None, typer.Option(help="checkpoint to begin from, e.g. tiny")] = None,
) -> None:
    """Train the embedded model (needs the extra [train])."""
    _needs_training_extra()
    from entropycache.training import command
    from entropycache.training.recipe import further, recipe

    settings = (further if start else recipe)(steps, decay, seed)
    command.train(output, settings, start, every, problems)


@app.command()
def problems(
    output: Annotated[Path, typer.Option(help="folder for one JSONL file a task")],
) -> None:
    """Draw the held-out problems again, as shipped (needs the extra [train])."""
    _needs_training_extra()
    from entropycache.training import command

    command.write_problems(output)


def _needs_training_extra() -> None:
    if importlib.util.find_spec("reasoning_gym") is None:
        raise OptionError("training needs reasoning-gym; pip install 'entropycache[train]'")


if __name__ == "__main__":
    main()
