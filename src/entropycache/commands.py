"""What ``entropycache generate`` and ``policies`` do once their options are read: one prompt, a
file of them, a conversation; a table.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from entropycache.completion import Completion
from entropycache.config import GenerationConfig
from entropycache.engine import Engine, Prompt
from entropycache.errors import PromptError
from entropycache.observers.trace import TraceWriter
from entropycache.policies import listing
from entropycache.records import Record, check, decode_file, unfinished


def generate_one(
    engine: Engine, model: str, prompt: Prompt, config: GenerationConfig, trace: Path | None
) -> Completion:
    """Decode one prompt."""
    with TraceWriter(trace, engine.text, model) if trace else nullcontext() as writer:
        on_step = writer.write if writer else None
        completion = engine.generate(prompt, config, on_step=on_step)
    assert isinstance(completion, Completion)
    if not completion.answer_tokens and not completion.error:
        print("entropycache: the answer is empty: it begins with its end", file=sys.stderr)
    return completion


def fill_in(
    engine: Engine, model: str, prompt: Prompt, options: dict[str, Any], trace: Path | None
) -> Completion:
    """Fill in the masks of one prompt."""
    with TraceWriter(trace, engine.text, model) if trace else nullcontext() as writer:
        return engine.infill(prompt, on_step=writer.write if writer else None, **options)


def generate_file(
    engine: Engine,
    model: str,
    records: list[Record],
    output: Path,
    batch_size: int,
    trace: Path | None,
) -> None:
    """Decode the records that the output file lacks, with a progress bar."""
    check(engine, records)
    left = unfinished(records, output, model)
    there, names = len(records) - len(left), [record.id for record in left]
    writer = TraceWriter(trace, engine.text, model, names, resumed=bool(there)) if trace else None
    with writer or nullcontext():
        on_step = writer.write if writer else None
        done = decode_file(engine, left, output, model, batch_size, on_step)
        failed = sum(c.error is not None for c in track(done, "decoding", total=len(left)))
    print(f"{len(left)} prompts decoded, {there} were there already, {failed} failed: {output}")


def list_policies() -> None:
    """Print the table of policies."""
    table = Table(*listing.HEAD, show_lines=True)
    for row in listing.rows():
        table.add_row(*row)
    console = Console()
    console.print(table) if console.is_terminal else console.out(
        listing.markdown(), highlight=False
    )


def converse(engine: Engine, config: GenerationConfig) -> None:
    """Read messages from the terminal and answer each, until an empty line or the end of input. A
    message that cannot be decoded is refused, and the conversation goes on.
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
