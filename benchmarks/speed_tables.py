"""Markdown tables of measured speeds, from the committed results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
NAMES = {
    "plain": "plain decoding",
    "all but the cache": "same rules, no cache",
    "all together": "EntropyCache",
}
"""Rows that come first in a speed table, in this order, and their names in it."""


def result(name: str) -> dict[str, Any]:
    """The committed result ``results/name.json``."""
    numbers: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return numbers


def table(head: list[str], rows: list[list[Any]]) -> str:
    """A Markdown table."""
    return "\n".join(map(line, [head, ["---", *["---:"] * (len(head) - 1)], *rows]))


def line(cells: list[Any]) -> str:
    """One line of a Markdown table."""
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def headline() -> str:
    """A table of plain decoding, the same rules without a cache, and EntropyCache; then the factors
    of the rules and of the cache.
    """
    of = result("speedup")
    rows = [
        [
            NAMES[label],
            correct(r),
            r["tokens_per_second"],
            speed_up(label, r),
            r["forwards"],
            r["full_passes"],
            f"{r['rows_per_token']:,.0f}",
        ]
        for label, r in ordered(of)
    ]
    head = ["", "correct", "tokens/s", "speed-up", "passes", "full", "positions a token"]
    rules, both = (of["rows"][n]["speed_up"] for n in ("all but the cache", "all together"))
    factors = (
        f"Early stop and several tokens a step come first: they make decoding {rules:.1f} times as "
        f"fast, with any\npolicy or none. The cache then makes that another {both / rules:.1f} "
        "times as fast."
    )
    return f"{measured(of)}\n\n{table(head, rows)}\n\n{factors}"


def speed(name: str) -> str:
    """A table of configurations, below a line on its problems, machine and command."""
    of = result(name)
    rows = [
        [
            NAMES.get(label, label),
            r["dtype"],
            correct(r),
            f"{r['same_answer_percent']:.0f} %",
            r["tokens_per_second"],
            speed_up(label, r),
            "{:.1f} … {:.1f}".format(*r["speed_up_interval_95"]),
            r["forwards"],
            r["full_passes"],
            r["rows_per_token"],
        ]
        for label, r in ordered(of)
    ]
    head = [
        *("", "dtype", "correct", "same answer", "tokens/s", "speed-up", "95 %", "passes", "full"),
        "rows/token",
    ]
    return f"{measured(of)}\n\n{table(head, rows)}"


def ordered(of: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The rows of a result, those of ``NAMES`` first."""
    first = [(name, of["rows"][name]) for name in NAMES if name in of["rows"]]
    return first + [(name, row) for name, row in of["rows"].items() if name not in NAMES]


def speed_up(label: str, row: dict[str, Any]) -> str:
    """The text of a row's speed-up, in bold for EntropyCache."""
    text = f"{row['speed_up']:.1f}×"
    return f"**{text}**" if label == "all together" else text


def compared(name: str) -> str:
    """A table of every policy under each commit rule."""
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
    """A table of policies over plain decoding, with one and with eight worked examples in front."""
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


def served() -> str:
    """A table of the server's answer tokens a second, by the number of clients at once."""
    of = result("serve")["by_concurrency"]
    ways = ("plain", "several tokens, no cache", "entropy")
    rows = []
    for clients in of["plain"]:
        plain, rules, cached = (of[way][clients]["tokens_per_second"] for way in ways)
        over = [f"{cached / plain:.1f}×", f"{cached / rules:.2f}×"]
        rows.append([clients, plain, rules, cached, *over])
    return table(["clients at once", *NAMES.values(), "over plain", "over no cache"], rows)


def soaked() -> str:
    """A table of answers, errors and slots left after the soaks."""
    of = result("serve_soak")
    stay, leave = of["runs"]["all stay"], of["runs"]["half vanish"]
    return (
        f"{of['clients']} clients of mixed lengths and policies, {of['seconds']:.0f} s:\n\n"
        + table(
            ["", "answers as they are alone", "others", "errors", "slots left behind"],
            [
                [name, f"{r['equal']:,}", r["different"], r["errors"], r["slots_left"]]
                for name, r in (("all stay", stay), ("half leave mid-stream", leave))
            ],
        )
    )


def measured(of: dict[str, Any]) -> str:
    """A line with the number of problems behind a table, the processor, and the command."""
    shots = f", {of['shots']}-shot" if of.get("shots") else ""
    tasks = ", ".join(of["tasks"])
    return (
        f"{of['problems']} problems ({tasks}{shots}) on {of['machine']['cpu']}, `{of['command']}`:"
    )


def correct(row: dict[str, Any]) -> str:
    """The text of an accuracy and its 95 % interval, in percent."""
    low, high = row["accuracy_interval_95"]
    return f"{row['accuracy_percent']:.0f} % ({low:.0f} … {high:.0f})"
