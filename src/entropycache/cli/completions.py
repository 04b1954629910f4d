"""The work of ``entropycache generate`` and ``policies`` once their options are read.

It decodes one prompt, a file of prompts or a conversation, or prints the table of policies.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from entropycache.config.generation import GenerationConfig
from entropycache.engine.engine import Engine
from entropycache.engine.output import Completion, Frame
from entropycache.errors import OptionError, PromptError, RecordError
from entropycache.io.jsonl import JsonlWriter
from entropycache.io.prompt_file import Record, read_records, unfinished
from entropycache.io.tokenizer import Prompt
from entropycache.observers.trace import TraceWriter
from entropycache.policies import make_policy
from entropycache.policies import table as policy_table
from entropycache.policies.saved import CALIBRATED


def generate_one(
    engine: Engine, model: str, prompt: Prompt, config: GenerationConfig, trace: Path | None
) -> Completion:
    """Return the completion of one prompt; ``trace`` is a file for its steps.

    An empty answer is mentioned on stderr. Raises ``PromptError`` for a prompt that cannot be
    decoded, and ``OptionError`` for a trace file that cannot be written.
    """
    with TraceWriter(trace, engine.tokenizer, model) if trace else nullcontext() as writer:
        on_step = writer.write if writer else None
        completion = engine.generate(prompt, config, on_step=on_step)
    assert isinstance(completion, Completion)
    if not completion.answer_tokens and not completion.error:
        print("entropycache: the answer is empty: it begins with its end", file=sys.stderr)
    return completion


def fill_in(
    engine: Engine, model: str, prompt: Prompt, options: dict[str, Any], trace: Path | None
) -> Completion:
    """Return one prompt with its masks filled in; ``trace`` is a file for its steps.

    Raises ``PromptError`` for a prompt without masks or one that cannot be decoded, and
    ``OptionError`` for options that are not accepted or a trace file that cannot be written.
    """
    with TraceWriter(trace, engine.tokenizer, model) if trace else nullcontext() as writer:
        return engine.infill(prompt, on_step=writer.write if writer else None, **options)


def generate_file(
    engine: Engine,
    model: str,
    records: list[Record],
    output: Path,
    batch_size: int,
    trace: Path | None,
) -> None:
    """Decode the records that the output file lacks, with a progress bar.

    Raises ``OptionError`` if a file cannot be written or another process is writing to it, and
    ``RecordError`` for a record that the engine cannot decode. Finished lines stay.
    """
    with JsonlWriter(output, f"--output {output}") as file:
        _check(engine, records)  # all of them first: hours of decoding must not end at a bad line
        left = unfinished(records, file, model)
        there, names = len(records) - len(left), [record.id for record in left]
        # What is said to a person must not stand between the lines of an output on stdout.
        console = Console(stderr=file.to_stdout)
        steps = TraceWriter(trace, engine.tokenizer, model, names, bool(there)) if trace else None
        with steps or nullcontext():
            on_step = steps.write if steps else None
            done = decode_file(engine, left, file, model, batch_size, on_step)
            watched = track(done, "decoding", total=len(left), console=console)
            failed = sum(completion.error is not None for completion in watched)
    said = f"{len(left)} prompts decoded, {there} were there already, {failed} failed: {output}"
    print(said, file=console.file)


def read_prompts(path: Path, base: GenerationConfig) -> list[Record]:
    """Return the records of a file of prompts; options left out are those of ``base``.

    Raises ``RecordError`` with the number of a wrong line, one with a wrong policy included.
    """
    return read_records(path, base, _check_policy)


def _check_policy(config: GenerationConfig) -> None:
    if config.policy.strip() != CALIBRATED:  # what it stands for is known once the model is there
        make_policy(config.policy)


def _check(engine: Engine, records: list[Record]) -> None:
    """Raise ``RecordError`` with the id of the first record that the engine cannot decode."""
    for record in records:
        try:
            engine.request(0, record.prompt, record.config)
        except (PromptError, OptionError) as error:
            raise RecordError(f"id {record.id!r}: {error}") from error


def decode_file(
    engine: Engine,
    records: list[Record],
    output: JsonlWriter,
    model: str,
    batch_size: int,
    on_step: Callable[[Frame], None] | None = None,
) -> Iterator[Completion]:
    """Decode ``records``, and yield each completion once ``output`` holds it.

    ``on_step`` is called with every step. Completions come in the order in which they finish.
    """
    jobs = [(record.prompt, record.config) for record in records]
    for i, completion in engine.run(jobs, batch_size, on_step):
        record = records[i]
        output.write({"id": record.id, "key": record.key(model), **asdict(completion)})
        yield completion


def list_policies() -> None:
    """Print the table of policies."""
    table = Table(*policy_table.HEAD, show_lines=True)
    for row in policy_table.rows():
        table.add_row(*row)
    console = Console()
    console.print(table) if console.is_terminal else console.out(
        policy_table.markdown(), highlight=False
    )


def converse(engine: Engine, config: GenerationConfig) -> None:
    """Answer each message read from the terminal, until an empty line or the end of input.

    A message that cannot be decoded is refused, and the conversation goes on.
    """
    messages: list[dict[str, str]] = []
    while question := _ask():
        turn = [*messages, {"role": "user", "content": question}]
        try:
            completion = engine.generate(turn, config)
        except PromptError as error:
            print(f"entropycache: {error}", file=sys.stderr)
            continue
        assert isinstance(completion, Completion)
        print(completion.text)
        messages = [*turn, {"role": "assistant", "content": completion.text}]


def _ask() -> str:
    try:
        return input("> ").strip()
    except EOFError:
        return ""
