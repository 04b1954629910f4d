"""Write the committed results and the registries into README, docs and model card, between their
markers. Run it after a benchmark, or after adding a policy or a model family: ``python
benchmarks/tables.py``. A test compares the pages with its output.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from speed_tables import (
    compared,
    headline,
    line,
    over_plain,
    result,
    served,
    soaked,
    speed,
    table,
)

from entropycache.models import FAMILIES
from entropycache.policies import table as policy_table

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
CARD = ROOT / "src" / "entropycache" / "assets" / "tiny" / "README.md"


def accuracy() -> str:
    """A table of the exact match of each task."""
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


def costs() -> str:
    """A list of the costs of decision, engine and memory."""
    of, memory = result("cost"), result("memory")
    rows = {r["canvas"]: r for r in of["rows"]}
    shares = ", ".join(f"{r['decision_percent']:.2f} % at canvas {c}" for c, r in rows.items())
    step = rows[1024]
    lines = [
        f"- **Decision** (entropy, choice, row selection), of the time of partial steps: {shares}.",
        f"- **Outside the network**, all told: {step['outside_network_percent']:.1f} % of a",
        f"  partial step of {step['step_ms']:.0f} ms ({step['rows']:.0f} rows, canvas 1024);",
        f"  the network takes {step['network_over_bare']:.2f}× its bare matmuls and attention.",
        f"- **Memory**: decoding a canvas of {memory['canvas']} with {memory['vocabulary']}",
        f"  tokens and a window as large raises the peak by {memory['peak_increase_mb']} MB;",
        f"  a canvas × vocabulary tensor would take"
        f" {memory['canvas_times_vocabulary_float32_mb']} MB.",
    ]
    return "\n".join(lines)


def calibrated() -> str:
    """A table of the settings calibrated on some problems, with their agreement on others."""
    of = result("calibration")
    rows = [
        [
            f"{float(target):.0%}",
            f"`{r['policy']}`",
            f"{r['seen']['agreement']:.1%}",
            f"{r['unseen_agreement']:.1%}",
            f"{r['unseen_rows_share']:.0%}",
        ]
        for target, r in of["targets"].items()
    ]
    head = ["target", "chosen", "agreement", "on unseen problems", "rows, of no cache"]
    counts = f"{of['prompts_seen']} problems to calibrate on, {of['prompts_unseen']} others:"
    return f"{counts}\n\n{table(head, rows)}"


def observed() -> str:
    """A table of the correlation of entropy and confidence with drift, under two commit rules."""
    rows = []
    for rule, folder in (("one token a step", "."), ("threshold 0.9", "threshold")):
        file = ROOT / "docs" / "analysis" / folder / "analysis.json"
        numbers = json.loads(file.read_text())["correlation"]
        for name in ("entropy", "1 - confidence"):
            rows.append(
                [
                    f"{rule}, {name}",
                    f"{numbers['points']} of {numbers['prompts']}",
                    *(
                        "{:.2f} ({:.2f} … {:.2f})".format(n["value"], *n["interval_95"])
                        for n in (numbers[name]["spearman"], numbers[name]["pearson_of_logarithms"])
                    ),
                ]
            )
    return table(["", "steps of prompts", "Spearman", "Pearson of logarithms"], rows)


def models() -> str:
    """A table of the known model families and the checkpoints published in them."""
    rows = [[f"`{name}`", ", ".join(family.published)] for name, family in FAMILIES.items()]
    return "\n".join(["| architecture | checkpoints |", "|---|---|", *map(line, rows)])


SECTIONS: dict[Path, dict[str, Callable[[], str]]] = {
    ROOT / "README.md": {"headline": headline},
    DOCS / "benchmarks.md": {
        "speedup": lambda: speed("speedup"),
        "parts": lambda: speed("speedup_parts"),
        "sweep": lambda: speed("sweep"),
        "costs": costs,
        "over-plain": over_plain,
        "one-shot": lambda: compared("policies_1_shot"),
        "eight-shot": lambda: compared("policies_8_shot"),
    },
    DOCS / "evaluation.md": {"calibrated": calibrated, "observed": observed},
    DOCS / "models.md": {"models": models, "accuracy": accuracy},
    DOCS / "policies.md": {"policies": policy_table.markdown},
    DOCS / "server.md": {"served": served, "soaked": soaked},
    CARD: {"accuracy": accuracy},
}


def filled(path: Path) -> str:
    """The text of a page with its sections written anew."""
    text = path.read_text(encoding="utf-8")
    for name, make in SECTIONS[path].items():
        pattern = rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)"
        text, count = re.subn(pattern, lambda m: f"{m[1]}{make()}\n{m[2]}", text, flags=re.S)  # noqa: B023
        assert count == 1, f"{path} lacks the section {name}"
    return text


if __name__ == "__main__":
    for file in SECTIONS:
        file.write_text(filled(file), encoding="utf-8")
