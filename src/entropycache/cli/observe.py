"""``entropycache demo``, ``policies`` and ``trace``: commands that show something."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from entropycache.cli.app import Dtype, Model, app, import_policy, load_engine


@app.command()
def demo(
    model: Model = "tiny",
    policy: Annotated[str, typer.Option(help="the policy shown beside plain decoding")] = "entropy",
    dtype: Dtype = "auto",
) -> None:
    """Solve real problems in the terminal: plain decoding, then EntropyCache, then their costs."""
    import_policy(policy)
    from entropycache.observers.demo import run_demo

    run_demo(load_engine(model, dtype, "cpu"), policy)


@app.command()
def policies() -> None:
    """List the cache policies: options, what each recomputes, what deciding costs, its paper."""
    from entropycache.cli.completions import list_policies

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
