"""Puts the committed results into README and model card, between their markers. Run after a
benchmark: ``python benchmarks/tables.py``. A test compares the tables with the results.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
CARD = ROOT / "src" / "entropycache" / "assets" / "tiny" / "README.md"


def result(name: str) -> dict[str, Any]:
    """A committed result."""
    found: dict[str, Any] = json.loads(
        (ROOT / "benchmarks" / "results" / f"{name}.json").read_text()
    )
    return found


def table(head: list[str], rows: list[list[Any]]) -> str:
    """A Markdown table."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def accuracy() -> str:
    """Exact match of each task."""
    rows = [
        [
            task,
            r["problems"],
            f"{r['exact_match_percent']:.1f} %",
            "{} … {}".format(*r["interval_95"]),
        ]
        for task, r in result("accuracy")["tasks"].items()
    ]
    return table(["task", "problems", "exact match", "95 % interval"], rows)


def speed(name: str) -> str:
    """A table of configurations, and how many problems it comes from."""
    of = result(name)
    measured = f"{of['problems']} problems ({', '.join(of['tasks'])}) on {of['machine']['cpu']}:"
    rows = [
        [
            label,
            r["dtype"],
            f"{r['accuracy_percent']:.0f} %",
            f"{r['same_text_as_plain_percent']:.0f} %",
            r["tokens_per_second"],
            f"{r['speed_up']:.1f}×",
            r["forwards"],
            r["full_passes"],
            r["rows_per_token"],
        ]
        for label, r in of["rows"].items()
    ]
    head = [
        "",
        "dtype",
        "correct",
        "same text",
        "tokens/s",
        "speed-up",
        "passes",
        "full",
        "rows/token",
    ]
    return f"{measured}\n\n{table(head, rows)}"


def costs() -> str:
    """Decision, engine and memory in one list."""
    decision, engine, memory = result("decision"), result("engine_cost"), result("memory")
    shares = ", ".join(
        f"{r['decision_percent_of_total']:.2f} % at canvas {r['canvas']}" for r in decision["runs"]
    )
    lines = [
        f"- **Decision** (entropy, choice, row selection), of the time of partial steps: {shares}.",
        f"- **Engine** outside the network: {engine['outside_percent']:.1f} % of a partial step of",
        f"  {engine['step_ms']:.0f} ms ({engine['rows']} rows, canvas {engine['canvas']}); the",
        f"  network takes {engine['network_over_bare']:.2f}× its bare matmuls and attention.",
        f"- **Memory**: decoding a canvas of {memory['canvas']} with {memory['vocabulary']} tokens",
        f"  and a window as large raises the peak by {memory['peak_increase_mb']} MB; a canvas ×",
        f"  vocabulary tensor would take {memory['canvas_times_vocabulary_float32_mb']} MB.",
    ]
    return "\n".join(lines)


SECTIONS = {
    README: {
        "accuracy": accuracy,
        "speedup": lambda: speed("speedup"),
        "sweep": lambda: speed("sweep"),
        "costs": costs,
    },
    CARD: {"accuracy": accuracy},
}


def filled(path: Path) -> str:
    """A file's text with its sections made anew."""
    text = path.read_text(encoding="utf-8")
    for name, make in SECTIONS[path].items():
        pattern = rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)"
        text, count = re.subn(pattern, lambda m: f"{m[1]}{make()}\n{m[2]}", text, flags=re.S)  # noqa: B023
        assert count == 1, f"{path} lacks the section {name}"
    return text


if __name__ == "__main__":
    for file in SECTIONS:
        file.write_text(filled(file), encoding="utf-8")
