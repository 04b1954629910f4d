"""The numbers of a comparison, and tables of them on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from entropycache.bench.comparison import Result


def numbers(rows: Sequence[Result]) -> dict[str, dict[str, Any]]:
    """The numbers of each result by name, compared with the first of the same model and length."""
    return {row.candidate.name: row.numbers(_base(row, rows)) for row in rows}


def _base(row: Result, rows: Sequence[Result]) -> Result:
    def kind(other: Result) -> tuple[object, int]:
        return other.candidate.model or other.candidate.engine, other.candidate.config.gen_length

    return next(other for other in rows if kind(other) == kind(row))


COLUMNS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "correct": lambda r: _percent(r["accuracy_percent"]),
    "same answer": lambda r: _percent(r["same_answer_percent"]),
    "tokens/s": lambda r: f"{r['tokens_per_second']:.1f}",
    "speed-up": lambda r: "–" if r["speed_up"] is None else f"{r['speed_up']:.2f}×",
    "passes": lambda r: f"{r['forwards']:.1f}",
    "full": lambda r: f"{r['full_passes']:.1f}",
    "rows/token": lambda r: "–" if r["rows_per_token"] is None else f"{r['rows_per_token']:.1f}",
    "deciding": lambda r: _share(r, "decision"),
    "network": lambda r: _share(r, "network"),
}


def show(by_name: Mapping[str, Mapping[str, Any]], title: str) -> None:
    """Print a table of the numbers of each configuration."""
    table = Table("", *COLUMNS, title=title)
    for column in table.columns[1:]:
        column.justify = "right"
    for name, row in by_name.items():
        table.add_row(name, *(make(row) for make in COLUMNS.values()))
    console = Console()
    # Outside a terminal rich assumes 80 columns, which would cut the names short.
    Console(width=console.width if console.is_terminal else 140).print(table)


def show_scaling(rows: Sequence[Mapping[str, Any]], title: str) -> None:
    """Print the table of a scaling run."""
    keys = (
        *("policy", "canvas", "rows", "step_ms", "decision_ms", "decision_percent"),
        *("outside_network_percent", "network_over_bare"),
    )
    table = Table(*(key.replace("_", " ") for key in keys), title=title)
    for row in rows:
        table.add_row(*(str(row[key]) for key in keys))
    Console().print(table)


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f} %"


def _share(row: Mapping[str, Any], part: str) -> str:
    shares = row["time_percent"]
    return f"{shares[part]:.1f} %" if shares else "–"
