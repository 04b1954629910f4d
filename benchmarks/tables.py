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
    rows = [
        [
            label,
            r["dtype"],
            correct(r),
            f"{r['same_answer_percent']:.0f} %",
            r["tokens_per_second"],
            f"**{r['speed_up']:.1f}×**" if label == "all together" else f"{r['speed_up']:.1f}×",
            "{:.1f} … {:.1f}".format(*r["speed_up_interval_95"]),
            r["forwards"],
            r["full_passes"],
            r["rows_per_token"],
        ]
        for label, r in of["rows"].items()
    ]
    head = [
        *("", "dtype", "correct", "same answer", "tokens/s", "speed-up", "95 %", "passes", "full"),
        "rows/token",
    ]
    return f"{measured(of)}\n\n{table(head, rows)}"


def compared(name: str) -> str:
    """Every policy, under each commit rule."""
    of = result(name)
    rows = [
        [
            *label.split("/"),
            correct(r),
            f"{r['same_answer_percent']:.0f} %",
            r["tokens_per_second"],
            f"{r['speed_up_over_no_cache']:.2f}×",
            r["forwards"],
            r["full_passes"],
            r["rows_per_token"],
            f"{r['time_percent']['decision']:.1f} %",
        ]
        for label, r in of["rows"].items()
    ]
    head = [
        *("rule", "policy", "correct", "same answer", "tokens/s", "over no cache"),
        *("passes", "full", "rows/token", "deciding"),
    ]
    return f"{measured(of)}\n\n{table(head, rows)}"


def over_plain() -> str:
    """Policies against plain decoding, with one and with eight worked examples in front."""
    rows = []
    for shots in (1, 8):
        of = result(f"policies_{shots}_shot_plain")
        for label, r in of["rows"].items():
            rule, _, policy = label.partition("/")
            low, high = r["speed_up_interval_95"]
            rows.append(
                [
                    f"{shots}-shot, {r['prompt_tokens']:.0f} tokens",
                    of["problems"],
                    f"{rule}, {policy}" if policy else rule,
                    correct(r),
                    f"{r['speed_up']:.0f}× ({low:.0f} … {high:.0f})",
                    f"{r['time_percent']['decision']:.2f} %",
                ]
            )
    head = ["prompt", "problems", "", "correct", "over plain decoding", "deciding"]
    return table(head, rows)


def measured(of: dict[str, Any]) -> str:
    """What a table comes from, in a line."""
    shots = f", {of['shots']}-shot" if of.get("shots") else ""
    tasks = ", ".join(of["tasks"])
    return (
        f"{of['problems']} problems ({tasks}{shots}) on {of['machine']['cpu']}, `{of['command']}`:"
    )


def correct(row: dict[str, Any]) -> str:
    """Accuracy with its interval."""
    low, high = row["accuracy_interval_95"]
    return f"{row['accuracy_percent']:.0f} % ({low:.0f} … {high:.0f})"


def costs() -> str:
    """Decision, engine and memory in one list."""
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
    """Calibration on some problems, agreement on others."""
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
    told = f"{of['prompts_seen']} problems to calibrate on, {of['prompts_unseen']} others:"
    return f"{told}\n\n{table(head, rows)}"


def observed() -> str:
    """Correlation of entropy and of confidence with drift, under both commit rules."""
    rows = []
    for rule, folder in (("one token a step", "."), ("threshold 0.9", "threshold")):
        file = ROOT / "docs" / "analysis" / folder / "analysis.json"
        found = json.loads(file.read_text())["correlation"]
        for name in ("entropy", "1 - confidence"):
            rows.append(
                [
                    f"{rule}, {name}",
                    f"{found['points']} of {found['prompts']}",
                    *(
                        "{:.2f} ({:.2f} … {:.2f})".format(n["value"], *n["interval_95"])
                        for n in (found[name]["spearman"], found[name]["pearson_of_logarithms"])
                    ),
                ]
            )
    return table(["", "steps of prompts", "Spearman", "Pearson of logarithms"], rows)


SECTIONS = {
    README: {
        "accuracy": accuracy,
        "speedup": lambda: speed("speedup"),
        "parts": lambda: speed("speedup_parts"),
        "sweep": lambda: speed("sweep"),
        "costs": costs,
        "over-plain": over_plain,
        "one-shot": lambda: compared("policies_1_shot"),
        "eight-shot": lambda: compared("policies_8_shot"),
        "calibrated": calibrated,
        "observed": observed,
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
