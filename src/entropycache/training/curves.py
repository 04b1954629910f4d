"""The curves of a training run: validation loss and decoded accuracy of each task against the
tokens seen. Reads the run's log, knows nothing of training itself.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def draw_curves(log: Path, path: Path) -> None:
    """Two panels over millions of tokens; a task that was not evaluated has no line."""
    from matplotlib.figure import Figure

    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    losses, shares = figure.subplots(1, 2)
    for panel, kind, title in (
        (losses, "val", "validation loss (nats a token)"),
        (shares, "exact", "exact match, decoded plainly (%)"),
    ):
        for name, points in _lines(lines, kind).items():
            panel.plot(*zip(*points, strict=True), marker="o", markersize=2.5, label=name)
        panel.set(xlabel="million tokens seen", title=title)
        panel.grid(alpha=0.25)
    losses.set_yscale("log")
    losses.legend(fontsize=7)
    figure.savefig(path, dpi=110)


def _lines(log: list[dict[str, Any]], kind: str) -> dict[str, list[tuple[float, float]]]:
    """The points of each task: millions of tokens, and its number."""
    found: dict[str, list[tuple[float, float]]] = {}
    for entry in log:
        for key, value in entry.items():
            group, _, task = key.partition("/")
            if group == kind and task:
                shown = 100 * value if kind == "exact" else value
                found.setdefault(task, []).append((entry.get("tokens", 0) / 1e6, shown))
    return found
