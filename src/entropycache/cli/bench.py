"""``entropycache bench`` with ``bench attribution`` and ``bench scaling``: measurements."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from entropycache.cli.app import Device, Dtype, Model, app, import_policy, listed, load_engine
from entropycache.cli.decoding_options import decoding_options
from entropycache.config.generation import GenerationConfig
from entropycache.errors import OptionError
from entropycache.io.problems import DEFAULT_TASKS

if TYPE_CHECKING:
    from entropycache.bench.command import Chosen

bench_app = typer.Typer(add_completion=False, invoke_without_command=True)
app.add_typer(bench_app, name="bench")

Tasks = Annotated[
    str | None,
    typer.Option(help=f"held-out tasks, with commas between (default {','.join(DEFAULT_TASKS)})"),
]
Count = Annotated[int | None, typer.Option(min=1, help="problems in all (default 30)")]
Shots = Annotated[
    list[int] | None,
    typer.Option(min=0, help="worked examples in front; may be repeated (default 0)"),
]
Input = Annotated[Path | None, typer.Option(help="JSONL file of prompts in place of the tasks")]
Output = Annotated[Path, typer.Option(help="folder for JSON, CSV and pictures")]


@bench_app.callback()
def bench(
    context: typer.Context,
    model: Annotated[list[str], typer.Option(help="model; may be repeated")] = ["tiny"],  # noqa: B006
    policy: Annotated[list[str], typer.Option(help="policy; may be repeated")] = [  # noqa: B006
        "none",
        "entropy",
    ],
    rule: Annotated[
        list[str],
        typer.Option(help="decoding options, as threshold=0.9,window=32; may be repeated"),
    ] = ["threshold=0.9"],  # noqa: B006
    gen_length: Annotated[list[int], typer.Option(min=1, help="length; may be repeated")] = [256],  # noqa: B006
    plain: Annotated[
        bool, typer.Option(help="begin with plain decoding: one token a step, no cache, no stop")
    ] = True,
    against: Annotated[
        list[str], typer.Option(help="MODULE:FUNCTION of other people's code; may be repeated")
    ] = [],  # noqa: B006
    tasks: Tasks = None,
    count: Count = None,
    shots: Shots = None,
    input: Input = None,
    output: Output = Path("bench"),
    dtype: Dtype = "auto",
    device: Device = "auto",
) -> None:
    """Compare policies, commit rules, models and lengths in one run, problem by problem."""
    if context.invoked_subcommand is not None:
        _refuse_options(context)
        return
    for spec in policy:
        import_policy(spec)
    from entropycache.bench.command import Matrix, compare

    lists = (tuple(model), tuple(policy), tuple(rule), tuple(gen_length))
    matrix = Matrix(*lists, plain, tuple(against), dtype, device)
    compare(matrix, chosen(tasks, count, shots, input), output)


@bench_app.command()
@decoding_options
def attribution(
    options: dict[str, Any],
    model: Model = "tiny",
    tasks: Tasks = None,
    count: Count = None,
    shots: Shots = None,
    input: Input = None,
    output: Output = Path("bench"),
    dtype: Dtype = "auto",
    device: Device = "auto",
) -> None:
    """Measure what each ingredient of a configuration gives: alone, and taken from the whole."""
    import_policy(options.get("policy"))
    config = GenerationConfig().merge(**options)
    from entropycache.bench.command import attribute

    asked = chosen(tasks, count, shots, input)
    attribute(load_engine(model, dtype, device), config, asked, output)


@bench_app.command()
def scaling(
    shape: Annotated[str, typer.Option(help="llada-8b, dream-7b or llada-0.5b")] = "llada-0.5b",
    layers: Annotated[int | None, typer.Option(min=1, help="fewer layers than the shape's")] = None,
    canvas: Annotated[list[int], typer.Option(help="canvas length; may be repeated")] = [  # noqa: B006
        *(512, 1024, 2048, 4096),
    ],
    policy: Annotated[list[str], typer.Option(help="policy; may be repeated")] = [  # noqa: B006
        "none",
        "entropy:tau=1e9",
    ],
    steps: Annotated[int, typer.Option(min=2, help="steps timed for each")] = 20,
    output: Output = Path("bench"),
    dtype: Annotated[str, typer.Option(help="bfloat16, float32 or float64")] = "bfloat16",
    device: Device = "auto",
) -> None:
    """Time steps and decisions against the canvas, on random weights of a published shape."""
    for spec in policy:
        import_policy(spec)
    from entropycache.bench.command import Scaling, scale_up

    canvases, policies = tuple(canvas), tuple(policy)
    scale_up(Scaling(shape, layers, canvases, policies, steps, dtype, device), output)


def chosen(
    tasks: str | None,
    count: int | None,
    shots: list[int] | None,
    input: Path | None,
    usual: int = 30,
) -> Chosen:
    """The prompts to decode: problems of held-out ``tasks``, or a file of prompts.

    ``usual`` is the number of problems if no ``count`` is given. Raises ``OptionError`` if tasks,
    count or shots are given beside a file.
    """
    from entropycache.bench.command import Chosen

    if input is not None and (tasks, count, shots or None) != (None, None, None):
        raise OptionError("a file of prompts has no --tasks, --count or --shots")
    wanted = DEFAULT_TASKS if tasks is None else listed(tasks)
    return Chosen(wanted, count or usual, tuple(dict.fromkeys(shots or [0])), input)


def _refuse_options(context: typer.Context) -> None:
    """Refuse options that stand before a command of bench, where they would be lost."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = f"--{name.replace('_', '-')}"
            raise OptionError(f"{option} stands before {context.invoked_subcommand}; put it behind")
