"""``entropycache generate``: reads its options; the work is done in ``completions``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from entropycache.cli.app import Device, Dtype, Model, app, import_policy, load_engine
from entropycache.cli.decoding_options import decoding_options
from entropycache.config.generation import GenerationConfig
from entropycache.errors import OptionError

if TYPE_CHECKING:
    from entropycache.engine.output import Completion
    from entropycache.io.tokenizer import Prompt


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
    import_policy(options.get("policy"))
    # Infilling checks its options later: its gen_length runs from the first mask to the end.
    config = GenerationConfig() if infill else GenerationConfig().merge(**options)
    single = _single(prompt, chat, prompt_ids)
    _check_modes(prompt is not None or chat, prompt_ids is not None, input, output)
    alone = chat and prompt is None
    _check_extras(input is not None, alone, infill and (chat or bool(input)), json, trace)
    from entropycache.cli import completions

    records = completions.read_prompts(input, config) if input else []
    engine = load_engine(model, dtype, device)
    if input and output:
        completions.generate_file(engine, model, records, output, batch_size, trace)
    elif single is None:
        completions.converse(engine, config)
    else:
        if infill:
            completion = completions.fill_in(engine, model, single, options, trace)
        else:
            completion = completions.generate_one(engine, model, single, config, trace)
        _print(completion, json, text=engine.tokenizer.backend is not None)


def _check_modes(prompt: bool, ids: bool, input: Path | None, output: Path | None) -> None:
    """Refuse several kinds of prompt, none, and files that do not go together."""
    if (input is None) != (output is None):
        raise OptionError("--input and --output go together")
    if prompt + ids + (input is not None) != 1:
        raise OptionError("give one of --prompt TEXT, --chat, --prompt-ids IDS and --input FILE")
    if input is not None and output is not None and input.resolve() == output.resolve():
        raise OptionError(f"--input and --output are the same file, {input}")


def _check_extras(
    file: bool, conversation: bool, misfilled: bool, json: bool, trace: Path | None
) -> None:
    """Refuse options that have no meaning for a file, a conversation or masks to be filled in."""
    if misfilled:
        raise OptionError("--infill goes with --prompt or --prompt-ids alone")
    if file and json:
        raise OptionError("--json prints one completion; those of --input go to --output")
    if conversation and (json or trace):
        raise OptionError(
            "--chat without --prompt is a conversation, which has no --json and no --trace"
        )


def _single(prompt: str | None, chat: bool, prompt_ids: str | None) -> Prompt | None:
    """The single prompt that the options give; ``None`` for a file or a conversation."""
    if prompt_ids is not None:
        try:
            return [int(part) for part in prompt_ids.replace(",", " ").split()]
        except ValueError as error:
            raise OptionError(
                f"--prompt-ids takes whole numbers with spaces between, not {prompt_ids!r}"
            ) from error
    return [{"role": "user", "content": prompt}] if chat and prompt is not None else prompt


def _print(completion: Completion, as_json: bool, text: bool) -> None:
    if not as_json:
        typer.echo(completion.text if text else " ".join(map(str, completion.token_ids)))
        return
    import json

    typer.echo(json.dumps(asdict(completion), ensure_ascii=False))
