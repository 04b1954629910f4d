"""What ``entropycache generate`` does once its options are read: one prompt, a file of them, or a
conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.progress import track

from entropycache.completion import Completion, Frame
from entropycache.config import GenerationConfig
from entropycache.engine import Engine, Prompt
from entropycache.errors import OptionError
from entropycache.observers.trace import TraceWriter
from entropycache.records import Record, decode_file, finished_ids

OnStep = Callable[[Frame], None] | None


def generate_one(
    engine: Engine, model: str, prompt: Prompt, config: GenerationConfig, trace: Path | None
) -> Completion:
    """Decode one prompt."""
    with _tracing(engine, model, trace) as on_step:
        completion = engine.generate(prompt, config, on_step=on_step)
    assert isinstance(completion, Completion)
    return completion


def generate_file(
    engine: Engine,
    model: str,
    records: list[Record],
    output: Path,
    batch_size: int,
    trace: Path | None,
) -> None:
    """Decode the records that the output file lacks, with a progress bar."""
    there = len(finished_ids(output) & {r.id for r in records})
    left = len(records) - there
    with _tracing(engine, model, trace) as on_step:
        completions = decode_file(engine, records, output, batch_size, on_step)
        failed = sum(c.error is not None for c in track(completions, "decoding", total=left))
    print(f"{left} prompts decoded, {there} were there already, {failed} failed: {output}")


def converse(engine: Engine, config: GenerationConfig) -> None:
    """Read messages from the terminal and answer each, until an empty line or the end of input."""
    messages: list[dict[str, str]] = []
    while question := _ask():
        messages.append({"role": "user", "content": question})
        completion = engine.generate(messages, config)
        assert isinstance(completion, Completion)
        print(completion.text)
        messages.append({"role": "assistant", "content": completion.text})


def _ask() -> str:
    try:
        return input("> ").strip()
    except EOFError:
        return ""


@contextmanager
def _tracing(engine: Engine, model: str, path: Path | None) -> Iterator[OnStep]:
    if path is None:
        yield None
        return
    try:
        file = path.open("w", encoding="utf-8")
    except OSError as error:
        raise OptionError(f"--trace {path}: cannot be written: {error}") from error
    with file:
        yield TraceWriter(file, engine.text, model).write
