"""The curves of a training run: validation loss and decoded accuracy against the tokens seen.

The module reads the run's log and knows nothing of training itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from entropycache.io.jsonl import read_finished_lines

TITLES = {
    "val": "validation loss (nats a token)",
    "exact": "exact match, decoded plainly (%)",
}


def draw_curves(log: Path, path: Path) -> None:
    """Draw a panel for each kind of number in the log, over millions of tokens, as a PNG.

    A log without such a number gives no picture. Raises ``RecordError`` if it cannot be read.
    """
    from matplotlib.figure import Figure

    entries = [entry for _, entry in read_finished_lines(log)]
    curves = {kind: lines for kind in TITLES if (lines := _lines(entries, kind))}
    if not curves:
        return
    figure = Figure(figsize=(6.5 * len(curves), 4.2), layout="constrained")
    panels = figure.subplots(1, len(curves), squeeze=False)[0]
    for panel, (kind, lines) in zip(panels, curves.items(), strict=True):
        for name, points in lines.items():
            panel.plot(*zip(*points, strict=True), marker="o", markersize=2.5, label=name)
        panel.set(xlabel="million tokens seen", title=TITLES[kind])
        panel.set_yscale("log" if kind == "val" else "linear")
        panel.grid(alpha=0.25)
    panels[0].legend(fontsize=7, loc="center left", bbox_to_anchor=(1.01, 0.5))
    figure.savefig(path, dpi=110)


def _lines(log: list[dict[str, Any]], kind: str) -> dict[str, list[tuple[float, float]]]:
    """The points of each task: millions of tokens, and the number (a percentage if ``exact``)."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for entry in log:
        for key, value in entry.items():
            group, _, task = key.partition("/")
            if group == kind and task:
                shown = 100 * value if kind == "exact" else value
                lines.setdefault(task, []).append((entry.get("tokens", 0) / 1e6, shown))
    return lines
