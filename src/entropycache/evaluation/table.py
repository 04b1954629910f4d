"""The results of an evaluation as a table, or as lines with tabs where there is no terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

HEAD = (
    *("task", "metric", "value", "samples"),
    *("tokens/s", "canvas tokens/s", "forwards/sample", "full/sample"),
)


def rows(report: Mapping[str, Any]) -> list[list[str]]:
    """The table's rows as texts, one for each metric of each task and group.

    ``report`` is the value that the report file holds.
    """
    lines = []
    for name, task in report["tasks"].items():
        cost = [
            _number(task.get(key), digits)
            for key, digits in (
                ("tokens_per_second", 1),
                ("canvas_tokens_per_second", 1),
                ("forwards_per_sample", 1),
                ("full_passes_per_sample", 1),
            )
        ]
        for metric, value in task["metrics"].items():
            lines.append([name, metric, _with_error(value), _number(task["samples"], 0), *cost])
            name, cost = "", [""] * len(cost)
    return lines


def show(report: Mapping[str, Any]) -> None:
    """Print the table, and a line that explains its two throughputs."""
    console = Console()
    if not console.is_terminal:
        for row in [list(HEAD), *rows(report)]:
            print("\t".join(row))
    else:
        table = Table(*HEAD)
        for row in rows(report):
            table.add_row(*row)
        console.print(table)
    print(
        "tokens/s: tokens before the first end token over wall time; "
        "canvas tokens/s: all gen_length positions over the same time"
    )


def _with_error(value: Mapping[str, Any]) -> str:
    shown = _number(value["value"], 4)
    return shown if value["stderr"] is None else f"{shown} ± {value['stderr']:.4f}"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
