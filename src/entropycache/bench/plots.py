"""Plots of a comparison, written as PNG: speed against accuracy, shares of the time, cost against
the length of the context. Each function raises ``OptionError`` for a path that cannot be written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from entropycache.engine.timing import PARTS
from entropycache.io.results import write_bytes
from entropycache.observers.figures import new_figure, png

COLOURS = {
    "network": "#4c72b0",
    "decision": "#c44e52",
    "sampling": "#dd8452",
    "engine": "#8c8c8c",
}


def speed_accuracy(by_name: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Plot accuracy (percent) against speed-up, with 95 % intervals as lines.

    Nothing is written if no answer can be judged.
    """
    if all(row["accuracy_percent"] is None for row in by_name.values()):
        return
    figure, axes = new_figure(7.5, 4.8)
    for i, (name, row) in enumerate(by_name.items()):
        if row["accuracy_percent"] is None or row["speed_up"] is None:
            continue
        x, y = row["speed_up"], row["accuracy_percent"]
        low, high = row["accuracy_interval_95"]
        left, right = row["speed_up_interval_95"] or (x, x)
        colour = f"C{i % 10}"
        axes.plot([x, x], [low, high], color=colour, alpha=0.4)
        axes.plot([left, right], [y, y], color=colour, alpha=0.4)
        axes.plot(x, y, marker="o", color=colour, label=name, linestyle="none")
    bases = dict.fromkeys(row["compared_with"] for row in by_name.values())
    axes.set(xlabel=f"speed-up over {', '.join(bases)}", ylabel="correct (%)", xscale="log")
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.01, 0.5))
    write_bytes(path, png(figure))


def time_split(by_name: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Plot a bar for each configuration: the share of each part of ``timing.PARTS`` in percent."""
    rows = {name: row["time_percent"] for name, row in by_name.items() if row["time_percent"]}
    figure, axes = new_figure(8, 1.2 + 0.32 * len(rows))
    left = [0.0] * len(rows)
    for part in PARTS:
        widths = [row[part] for row in rows.values()]
        axes.barh(list(rows), widths, left=left, color=COLOURS[part], label=part)
        left = [a + b for a, b in zip(left, widths, strict=True)]
    axes.invert_yaxis()
    axes.set(xlabel="share of the time (%)", xlim=(0, 100))
    axes.legend(ncols=4, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    write_bytes(path, png(figure))


def by_context(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Plot tokens a second against the mean length of prompts, a line for each configuration."""
    figure, axes = new_figure(7.5, 4.8)
    for name in dict.fromkeys(row["name"] for row in rows):
        mine = sorted(
            (r["prompt_tokens"], r["tokens_per_second"]) for r in rows if r["name"] == name
        )
        axes.plot(*zip(*mine, strict=True), marker="o", label=name)
    axes.set(xlabel="tokens of the prompt (mean)", ylabel="tokens per second", yscale="log")
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.01, 0.5))
    write_bytes(path, png(figure))


def scaling(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Plot milliseconds of a step, and of its decision, against the length of the canvas."""
    figure, axes = new_figure(7.5, 4.8)
    for i, policy in enumerate(dict.fromkeys(row["policy"] for row in rows)):
        mine = [row for row in rows if row["policy"] == policy]
        canvas = [row["canvas"] for row in mine]
        axes.plot(
            canvas, [r["step_ms"] for r in mine], "o-", color=f"C{i}", label=f"{policy}: step"
        )
        decided = [row["decision_ms"] for row in mine]
        if any(decided):
            axes.plot(canvas, decided, "o--", color=f"C{i}", label=f"{policy}: decision")
    axes.set(xlabel="canvas (positions)", ylabel="milliseconds", xscale="log", yscale="log")
    axes.legend(fontsize=8)
    write_bytes(path, png(figure))
